"""Consumer groups: two members of one package, and members of all packages in one group."""

from collections.abc import Sequence
from typing import Final

import pytest

from borzoi.protocol.commands import GetConsumerGroup
from tests.broker import BrokerProcess, wait_for
from tests.clients.conftest import Start
from tests.clients.running import Connection, RunningWheel, Seen, seen
from tests.clients.wheels import Wheel, wheels_that_can
from tests.wire import Wire

pytestmark = pytest.mark.slow

PARTITIONS: Final = 6
MESSAGES: Final = 5
GROUPED: Final = wheels_that_can("groups")


def taken(running: RunningWheel, member: str) -> list[Seen]:
    return [seen(message) for message in running.ask("taken", member=member)]


def members_count(broker: BrokerProcess, topic: str) -> int:
    with Wire(broker) as wire:
        found = wire.ask(GetConsumerGroup(topic, topic, "g"))
    return 0 if found is None else len(found.members)


def fill(connection: Connection, topic: str) -> set[bytes]:
    """Messages in every partition."""
    sent = {
        partition: [f"{partition}/{number}" for number in range(MESSAGES)]
        for partition in range(PARTITIONS)
    }
    for partition, texts in sent.items():
        connection.send(topic, partition, *texts)
    return {text.encode() for texts in sent.values() for text in texts}


def partitions_of(messages: Sequence[Seen]) -> set[bytes]:
    return {message.payload.partition(b"/")[0] for message in messages}


@pytest.mark.parametrize("wheel", GROUPED, ids=str)
def test_two_members_share_a_topic(
    wheel: Wheel, start: Start, standing_broker: BrokerProcess, connection: Connection, name: str
) -> None:
    share_topic([start(wheel)] * 2, standing_broker, connection, name)


def test_members_of_all_packages_share_a_topic(
    start: Start, standing_broker: BrokerProcess, name: str
) -> None:
    running = [start(wheel) for wheel in GROUPED]
    connection = Connection(running[0], standing_broker, name)
    share_topic(running, standing_broker, connection, name)
    connection.close()


def share_topic(
    running: Sequence[RunningWheel], broker: BrokerProcess, connection: Connection, name: str
) -> None:
    """All members together take each message; a partition is taken by one of them."""
    connection.new_topic(name, PARTITIONS)
    members = []
    for number, one in enumerate(running):
        member = Connection(one, broker, f"{name}-{number}")
        member.ask("join", member=member.name, group="g", stream=name, topic=name)
        members.append(member)
    wait_for(lambda: members_count(broker, name) == len(members))
    expected = fill(connection, name)

    def all_taken() -> list[list[Seen]]:
        shares = [taken(member.running, member.name) for member in members]
        return shares if sum(map(len, shares)) >= len(expected) else []

    shares = wait_for(all_taken)
    assert sorted(one.payload for share in shares for one in share) == sorted(expected)
    owned = [partitions_of(share) for share in shares]
    assert all(owned), f"a member took nothing: {owned}"
    assert sum(map(len, owned)) == PARTITIONS, f"a partition was taken by two: {owned}"
    for member in members:
        member.running.ask("leave", member=member.name)
        member.close()
