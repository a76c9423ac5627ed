"""What users of low privilege do to make others wait: each attack as something that lasts.

Every attack is a context: on entry it is in full swing, on exit its connections are closed. The
suite looks whether others are served meanwhile; `python -m tests.hostile.neighbours` measures how
fast.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from threading import Event, Thread
from typing import Final, NamedTuple

from borzoi.protocol.commands import CreateUser, StoreConsumerOffset
from borzoi.protocol.identifiers import Consumer, ConsumerKind
from borzoi.protocol.permissions import GlobalPermissions, Permissions
from tests.broker import BrokerProcess
from tests.wire import Closed, Wire, frame_of, poll_frame, send_frame

PASSWORD: Final = "low-privilege"
MAY_POLL: Final = Permissions(GlobalPermissions(poll_messages=True))
MAY_SEND: Final = Permissions(GlobalPermissions(send_messages=True, poll_messages=True))
PIPELINED: Final = 100
TAKEN_TIMEOUT_S: Final = 0.2
SLOW_READ_SIZE: Final = 1024
SLOW_READ_INTERVAL_S: Final = 0.5


class Unfinished(NamedTuple):
    """A connection in the middle of a frame, and what is left of that."""

    wire: Wire
    rest: memoryview


def make_user(root: Wire, name: str, permissions: Permissions) -> None:
    """A user that may do little."""
    assert root.answer_to(CreateUser(name, PASSWORD, permissions=permissions)).status == 0


@contextmanager
def unfinished_sends(
    broker: BrokerProcess, user: str, stream: str, topic: str, *, connections: int, size: int
) -> Iterator[list[Unfinished]]:
    """Large batches of which most has come, and the rest never does."""
    frame = memoryview(send_frame(stream, topic, [bytes(size)]))
    with ExitStack() as opened:
        begun = []
        for _ in range(connections):
            wire = opened.enter_context(Wire(broker, login=False)).log_in(user, PASSWORD)
            begun.append(Unfinished(wire, _send_some(wire, frame)))
        yield begun


def _send_some(wire: Wire, frame: memoryview) -> memoryview:
    """Sends most of a frame, or as much as is taken; returns what is left of it.

    A connection that waits takes what fits into its sockets.
    """
    end = len(frame) - len(frame) // 16
    sent = 0
    wire.socket.settimeout(TAKEN_TIMEOUT_S)
    with suppress(TimeoutError):
        while sent < end:
            sent += wire.socket.send(frame[sent:end])
    return frame[sent:]


@contextmanager
def slow_readers(
    broker: BrokerProcess, user: str, stream: str, topic: str, *, connections: int, count: int
) -> Iterator[list[Wire]]:
    """Each asks for many messages and takes a little now and then."""
    ended = Event()
    with ExitStack() as opened:
        wires = [
            opened.enter_context(Wire(broker, login=False)).log_in(user, PASSWORD)
            for _ in range(connections)
        ]
        for wire in wires:
            wire.put(poll_frame(stream, topic, 0, count))

        def read_slowly() -> None:
            while not ended.wait(SLOW_READ_INTERVAL_S):
                for wire in wires:
                    wire.socket.settimeout(0.01)
                    with suppress(TimeoutError, Closed):
                        wire.read_some(SLOW_READ_SIZE)

        thread = Thread(target=read_slowly)
        thread.start()
        try:
            yield wires
        finally:
            ended.set()
            thread.join()


def invent_consumers(
    broker: BrokerProcess, user: str, stream: str, topic: str, count: int
) -> list[int]:
    """Store offset 0 as so many consumers that do not exist; the statuses."""
    statuses = []
    with Wire(broker, login=False).log_in(user, PASSWORD) as wire:
        for first in range(0, count, PIPELINED):
            ids = range(first, min(first + PIPELINED, count))
            frames = (
                StoreConsumerOffset(
                    Consumer(ConsumerKind.CONSUMER, 1_000_000 + id), stream, topic, 0, 0
                )
                for id in ids
            )
            wire.put(b"".join(map(frame_of, frames)))
            statuses += [answer.status for answer in wire.answers(len(ids))]
    return statuses
