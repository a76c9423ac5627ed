"""Every package: connect, log in and be refused, streams and topics."""

import pytest

from borzoi.protocol.commands import CreatePersonalAccessToken, DeletePersonalAccessToken
from tests.broker import BrokerProcess
from tests.clients.conftest import Start
from tests.clients.running import Connection, Refused
from tests.clients.wheels import Wheel, read_packages, wheels_that_can
from tests.wire import Wire

pytestmark = pytest.mark.slow


def test_a_package_is_what_the_list_says(wheel: Wheel, start: Start) -> None:
    running = start(wheel)
    assert running.ask("where").startswith(str(wheel.directory))
    assert running.ask("abilities") == sorted(wheel.abilities - {"ambiguous"})


def test_an_ability_without_a_meaning_is_refused() -> None:
    with pytest.raises(ValueError, match=r"apache-iggy==1 can .'fly'"):
        read_packages("# all\napache-iggy==1 bytes fly\n")


def test_ping_before_the_login(
    wheel: Wheel, start: Start, standing_broker: BrokerProcess, name: str
) -> None:
    connection = Connection(start(wheel), standing_broker, name, login=False)
    connection.ask("open", address=standing_broker.address)
    connection.ask("ping")
    with pytest.raises(Refused, match=r"(?i)unauthenticated"):
        connection.ask("create_stream", stream=name)
    connection.close()


def test_a_wrong_password_and_then_the_right_one(
    wheel: Wheel, start: Start, standing_broker: BrokerProcess, name: str
) -> None:
    connection = Connection(start(wheel), standing_broker, name, login=False)
    connection.ask("open", address=standing_broker.address)
    with pytest.raises(Refused, match=r"(?i)credentials"):
        connection.log_in(password="wrong")
    connection.log_in()
    connection.ask("create_stream", stream=name)
    assert connection.ask("get_stream", stream=name)["name"] == name
    connection.close()


@pytest.mark.parametrize("wheel", wheels_that_can("strings"), ids=str)
def test_a_token(wheel: Wheel, start: Start, standing_broker: BrokerProcess, name: str) -> None:
    connection = Connection(start(wheel), standing_broker, name, login=False)
    with Wire(standing_broker) as root:
        token = root.ask(CreatePersonalAccessToken(str(wheel), 0)).token
        connection.open_with(token)
        connection.ask("create_stream", stream=name)
        connection.close()
        root.ask(DeletePersonalAccessToken(str(wheel)))
    with pytest.raises(Refused):
        connection.open_with(token)
    connection.close()


def test_streams_and_topics(connection: Connection, name: str) -> None:
    connection.new_topic(name, partitions=3)
    connection.send(name, 2, "one", "two")
    stream = connection.ask("get_stream", stream=name)
    topic = connection.ask("get_topic", stream=name, topic=name)
    assert (stream["name"], stream["topics"], stream["messages"]) == (name, 1, 2)
    assert (topic["name"], topic["partitions"], topic["messages"]) == (name, 3, 2)
    assert connection.ask("get_stream", stream=stream["id"]) == stream
    assert connection.ask("get_topic", stream=stream["id"], topic=topic["id"]) == topic


def test_what_is_not_there(connection: Connection, name: str) -> None:
    assert connection.ask("get_stream", stream="missing") is None
    connection.new_topic(name)
    assert connection.ask("get_topic", stream=name, topic="missing") is None
    with pytest.raises(Refused):
        connection.send("missing", 0, "x")
    with pytest.raises(Refused):
        connection.send(name, 1, "x")
    with pytest.raises(Refused):
        connection.poll(name, partition=1)
    with pytest.raises(Refused, match=r"(?i)already ?exists"):
        connection.ask("create_stream", stream=name)
    with pytest.raises(Refused, match=r"(?i)already ?exists"):
        connection.ask("create_topic", stream=name, topic=name, partitions=1)
    connection.ask("ping")
