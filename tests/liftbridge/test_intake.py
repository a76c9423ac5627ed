"""What NATS delivers while the disk is slow, full or gone: bounds, acks, and who is dropped."""

import asyncio
from collections.abc import Coroutine
from typing import Any, cast

import pytest
from nats.aio.msg import Msg

from borzoi.liftbridge.appending import Appending
from borzoi.liftbridge.arrived import arrived
from borzoi.liftbridge.bridge import Bridge
from borzoi.liftbridge.envelope import (
    PUBLISH,
    Envelope,
    Plain,
    decode_envelope,
    encode_envelope,
)
from borzoi.liftbridge.intake import ACKS_WAITING_MAX, Feed, Intake
from borzoi.liftbridge.nats_link import NatsLink
from borzoi.liftbridge.ports import (
    Failed,
    NotAllowed,
    PlaceGone,
    PortError,
    Store,
    StreamView,
    User,
)
from borzoi.liftbridge.publishing import Publishing
from borzoi.liftbridge.schema import Ack, AckError, AckPolicy, Message
from tests.conditions import until
from tests.liftbridge.test_envelope import ROWS

PENDING_MAX = 10_000


def view(name: str, **changed: Any) -> StreamView:
    empty: dict[int, Any] = {}
    plain = StreamView(name, name, "", 1, 0, {}, frozenset(), False, frozenset(), empty, empty)
    return plain._replace(**changed)


class FakeStore:
    """Appends when it may, or fails."""

    def __init__(self) -> None:
        self.views = {name: view(name) for name in ("one", "other")}
        self.may_append = asyncio.Event()
        self.error: PortError | None = None
        self.is_allowed = True
        self.appended = 0
        self.synced = 0
        self.versions = 0

    def now_ns(self) -> int:
        return 5_000

    def version(self) -> int:
        return self.versions

    def streams(self) -> dict[str, StreamView]:
        return self.views

    def require(self, _user: User, _action: object, _stream: str | None = None) -> None:
        if not self.is_allowed:
            raise NotAllowed("no")

    def place(self, stream: str, partition: int) -> tuple[str, int]:
        return stream, partition

    async def append(self, _user: User, _place: object, _batch: bytearray, count: int) -> int:
        await self.may_append.wait()
        if self.error is not None:
            raise self.error
        first = self.appended
        self.appended += count
        return first

    async def sync(self, _place: object) -> None:
        self.synced += 1


class FakeLink:
    """Takes acks, or does not."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, Any]] = []
        self.may_send = asyncio.Event()
        self.may_send.set()
        self.is_connected = True

    async def publish(self, subject: str, payload: bytes) -> bool:
        await self.may_send.wait()
        if not self.is_connected:
            return False
        envelope = decode_envelope(payload)
        assert isinstance(envelope, Envelope)
        self.sent.append((subject, Ack.FromString(bytes(envelope.payload))))
        return True


class World:
    def __init__(self) -> None:
        self.store = FakeStore()
        self.link = FakeLink()
        bridge = Bridge(cast("Store", self.store))
        appending = Appending(cast("Store", self.store), asyncio.get_running_loop())
        publishing = Publishing(bridge, appending)
        link = cast("NatsLink", self.link)
        self.intake = Intake(publishing, link, lambda: User(1, 2), PENDING_MAX)
        self.feeds = {name: Feed(name, 0) for name in self.store.views}

    def take(self, data: bytes, stream: str = "one") -> None:
        message = Msg(cast("Any", None), subject=stream, data=data)
        self.intake.take(self.feeds[stream], message)

    @property
    def counts(self) -> Any:
        return self.intake.counts


def wrapped(**fields: Any) -> bytes:
    return encode_envelope(PUBLISH, Message(**fields).SerializeToString())


def run(scenario: Coroutine[Any, Any, None]) -> None:
    asyncio.run(scenario)


def test_what_is_on_its_way_is_bounded() -> None:
    async def scenario() -> None:
        world = World()
        for _ in range(50):
            world.take(bytes(500))
        # A partition takes what is free: half of all, as both grow together.
        assert world.intake.pending_size == PENDING_MAX // 2
        assert world.counts.overflowed == 40
        # Another one finds room.
        world.take(bytes(500), "other")
        assert world.counts.overflowed == 40
        world.store.may_append.set()
        await world.intake.drain()
        assert (world.counts.stored, world.intake.pending_size) == (11, 0)
        world.take(bytes(500))
        assert world.counts.overflowed == 40
        await world.intake.drain()
        assert world.counts.received == 52

    run(scenario())


def test_acks_come_after_the_append_and_carry_its_offset() -> None:
    async def scenario() -> None:
        world = World()
        for number in range(3):
            world.take(wrapped(value=b"v", ackInbox="inbox", correlationId=str(number)))
        world.take(wrapped(value=b"v", ackInbox="inbox", ackPolicy=AckPolicy.NONE))
        world.take(wrapped(value=b"v"))
        await asyncio.sleep(0.01)
        assert world.link.sent == []
        world.store.may_append.set()
        await world.intake.drain()
        await until(lambda: len(world.link.sent) == 3)
        assert [(to, ack.offset, ack.correlationId) for to, ack in world.link.sent] == [
            ("inbox", number, str(number)) for number in range(3)
        ]
        assert world.store.synced == 0
        world.take(wrapped(value=b"v", ackInbox="inbox", ackPolicy=AckPolicy.ALL))
        await until(lambda: len(world.link.sent) == 4)
        assert world.store.synced == 1
        assert (world.counts.acked, world.counts.enveloped, world.counts.stored) == (4, 6, 6)

    run(scenario())


@pytest.mark.parametrize(
    ("error", "acks", "counted"),
    [
        (Failed("the disk is full"), [AckError.UNKNOWN], "failed"),
        (PlaceGone("deleted"), [], "refused"),
    ],
)
def test_what_is_not_stored_is_not_acked(error: PortError, acks: list[int], counted: str) -> None:
    async def scenario() -> None:
        world = World()
        world.store.error = error
        world.store.may_append.set()
        world.take(wrapped(value=b"v", ackInbox="inbox"))
        await world.intake.drain()
        await until(lambda: len(world.link.sent) == len(acks))
        assert [ack.ackError for _, ack in world.link.sent] == acks
        assert getattr(world.counts, counted) == 1
        assert world.counts.stored == 0

    run(scenario())


@pytest.mark.parametrize(
    "change",
    [{"paused": frozenset({0})}, {"readonly": frozenset({0})}, {"partitions": 0}],
)
def test_partitions_that_take_nothing(change: dict[str, Any]) -> None:
    async def scenario() -> None:
        world = World()
        world.store.views["one"] = view("one", **change)
        world.take(wrapped(value=b"v", ackInbox="inbox"))
        assert world.counts.refused == 1
        assert world.intake.pending_size == 0

    run(scenario())


def test_a_user_that_may_not() -> None:
    async def scenario() -> None:
        world = World()
        world.store.is_allowed = False
        world.take(b"v")
        assert world.counts.refused == 1

    run(scenario())


def test_acks_that_cannot_be_sent_are_bounded_and_counted() -> None:
    async def scenario() -> None:
        world = World()
        world.store.may_append.set()
        world.link.may_send.clear()
        for number in range(ACKS_WAITING_MAX + 10):
            world.intake.send_ack("inbox", b"%d" % number)
        assert world.counts.unacked == 10
        world.intake.send_ack("two words", b"")
        assert world.counts.unacked == 11
        world.link.is_connected = False
        world.link.may_send.set()
        await world.intake.drain()
        assert (world.counts.acked, world.counts.unacked) == (0, 11 + ACKS_WAITING_MAX)

    run(scenario())


@pytest.mark.parametrize("name", ROWS)
def test_the_golden_bytes_as_they_arrive(name: str) -> None:
    meaning, data = ROWS[name]
    came = arrived("foo", "to.me", data, {"A": "ä"})
    assert (came.message.subject, came.message.reply) == ("foo", "to.me")
    assert came.message.headers["A"] == "ä".encode()
    if meaning == "publish":
        assert came.plain is None
    else:
        assert came.plain is Plain[meaning]
        assert (came.message.value, came.message.key, came.inbox) == (data, b"", "")


def test_the_fields_of_an_envelope() -> None:
    came = arrived("s", "", ROWS["P3"][1], {"h1": "of NATS"})
    assert (came.message.key, came.message.value) == (b"k1", b"hello")
    # The envelope says it more exactly.
    assert came.message.headers == {"h1": b"\1\2"}
    assert (came.inbox, came.message.correlation_id) == ("ack.inbox.1", "c-1")
    assert (came.policy, came.expected) == (AckPolicy.LEADER, 0)
    forwarded = arrived("s", "", ROWS["P5"][1], None)
    assert (forwarded.policy, forwarded.expected) == (AckPolicy.ALL, -1)
    assert forwarded.message.subject == "s"
