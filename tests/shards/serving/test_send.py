"""Sends of a session whose door has no arena: the batch lies in private memory."""

from types import SimpleNamespace
from typing import Any, NamedTuple, cast

import pytest

from borzoi.protocol.batch import first_stamped_offset
from borzoi.protocol.codes import Code
from borzoi.protocol.errors import BrokerError, Unauthenticated
from borzoi.protocol.generations import CLASSIC
from borzoi.protocol.identifiers import PartitionId
from borzoi.protocol.message import Message, decode_messages
from borzoi.protocol.send_messages import encode_send_messages
from borzoi.router.buffer import Buffer
from borzoi.router.target import Target
from borzoi.shards.handlers.services import Services
from borzoi.shards.rings.requests import Done
from borzoi.shards.serving.reply import OK, Reply, Status
from borzoi.shards.serving.send import Sending

HERE = 0
USER = 7
TARGET = Target(5, 3, 1)


class Appended(NamedTuple):
    """What the port was asked to append."""

    user: int
    owner: int
    payloads: list[bytes]
    buffer: Buffer | None


class FakeAppends:
    """The port, which answers at once."""

    shard = HERE

    def __init__(self, owner: int) -> None:
        self._owner = owner
        self.asked: list[Appended] = []
        self.statuses: list[int] = []

    def owner(self, target: Target) -> int:
        assert target == TARGET
        return self._owner

    def append(
        self,
        user: int,
        target: Target,
        owner: int,
        batch: memoryview,
        message_count: int,
        buffer: Buffer | None,
        position: int,
        done: Done,
    ) -> None:
        assert target == TARGET
        assert first_stamped_offset(batch) is None
        payloads = [message.payload for message in decode_messages(batch)]
        assert len(payloads) == message_count
        assert buffer is not None or position >= 0
        self.asked.append(Appended(user, owner, payloads, buffer))
        done(self.statuses.pop(0) if self.statuses else 0, 0, 0, 0)


class FakeSender:
    """A session of a user."""

    def __init__(self) -> None:
        self.user_id: int | None = USER
        self.generation = CLASSIC
        self.replies: list[Reply] = []
        self.moves: list[int] = []

    def reply(self, reply: Reply, /) -> None:
        self.replies.append(reply)

    def learn(self, code: int, payload: memoryview) -> None:
        assert code == Code.SEND_MESSAGES
        assert payload

    def no_login(self, code: int, payload: memoryview) -> BrokerError:
        return Unauthenticated(f"{code} {payload.nbytes}")

    def fail_with(self, status: int) -> None:
        self.replies.append(Status(status))

    def move_to(self, shard: int) -> None:
        self.moves.append(shard)


def sending(owner: int) -> tuple[Sending, FakeAppends, FakeSender]:
    appends, sender = FakeAppends(owner), FakeSender()
    metadata = SimpleNamespace(published_version=[4], refresh_version=lambda: 4)
    sends = SimpleNamespace(target=lambda _user, _command: TARGET)
    services: Any = SimpleNamespace(appends=appends, metadata=metadata, send_targets=sends)
    return Sending(cast(Services, services), sender), appends, sender


def payload_of(*payloads: bytes) -> memoryview:
    messages = [Message(payload) for payload in payloads]
    return memoryview(bytearray(encode_send_messages("s", "t", PartitionId(0), messages)))


@pytest.mark.parametrize("owner", [HERE, 1])
def test_a_batch_in_private_memory(owner: int) -> None:
    """The first is looked up, the second is remembered."""
    sends, appends, sender = sending(owner)
    for payloads in ([b"one", b"two"], [b"three"]):
        sends.begin(payload_of(*payloads), None, 0)
        assert appends.asked.pop() == Appended(USER, owner, payloads, None)
    assert sender.replies == [OK, OK]
    # A client is drawn to the shard of the partition that it names.
    assert sender.moves == ([] if owner == HERE else [owner] * 2)


def test_a_status_of_the_owner_is_the_answer() -> None:
    sends, appends, sender = sending(HERE)
    appends.statuses.append(BrokerError.status)
    sends.begin(payload_of(b"one"), None, 0)
    assert sender.replies == [Status(BrokerError.status)]
    assert sender.moves == []


def test_a_login_that_has_ended_is_noticed_with_the_change() -> None:
    sends, appends, sender = sending(HERE)
    sender.user_id = None
    with pytest.raises(Unauthenticated):
        sends.begin(payload_of(b"one"), None, 0)
    assert appends.asked == []
