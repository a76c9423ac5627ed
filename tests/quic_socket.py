"""A QUIC client of the tests that looks like a socket: each frame goes out on a stream of its own.

Blocking, like the Wire above it. What is sent is cut into frames; answers are read in the order of
their requests, whichever comes first. `Quic` below it has every stream in the test's hands. The
library is the one of the broker: interoperation is shown by the official clients.
"""

import logging
import socket
import ssl
import struct
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Final, cast

from qh3.quic.configuration import QuicConfiguration
from qh3.quic.connection import QuicConnection
from qh3.quic.events import (
    ConnectionTerminated,
    HandshakeCompleted,
    QuicEvent,
    StopSendingReceived,
    StreamDataReceived,
    StreamReset,
)

from tests.readable import is_readable

logging.getLogger("quic").setLevel(logging.CRITICAL)

STREAMS_MAX: Final = 100
U32: Final = struct.Struct("<I")
CONSENSUS_SIZE_AT: Final = 48
DATAGRAM_SIZE: Final = 65536


class Quic:
    """One QUIC connection; nothing happens but in calls."""

    def __init__(
        self,
        address: str,
        timeout_s: float,
        *,
        source: str = "",
        ca: bytes | None = None,
        **configured: Any,
    ) -> None:
        host, _, port = address.rpartition(":")
        self.timeout_s = timeout_s
        self.udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.udp.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        self.udp.bind((source, 0))
        self.udp.connect((host, int(port)))
        self.peer = (host, int(port))
        self.streams: dict[int, bytearray] = {}
        self.ended: set[int] = set()
        self.resets: dict[int, int] = {}
        self.stopped: dict[int, int] = {}
        self.closed: ConnectionTerminated | None = None
        self.is_open = False
        self.sent_bytes = 0
        self.received_bytes = 0
        verify = ssl.CERT_NONE if ca is None else ssl.CERT_REQUIRED
        configuration = QuicConfiguration(
            is_client=True, server_name="localhost", verify_mode=verify, cadata=ca, **configured
        )
        self.quic = QuicConnection(configuration=configuration)

    def open(self) -> "Quic":
        """Shake hands."""
        try:
            self.quic.connect(self.peer, time.monotonic())
            self.until(lambda: self.is_open)
        except BaseException:
            self.udp.close()
            raise
        return self

    def send(self, data: bytes, *, ends: bool = True, stream_id: int | None = None) -> int:
        """On a new stream, or on one that was begun; its id."""
        if stream_id is None:
            stream_id = self.quic.get_next_available_stream_id()
            self.streams[stream_id] = bytearray()
        self.quic.send_stream_data(stream_id, data, ends)
        self.flush()
        return stream_id

    def answer(self, stream_id: int) -> bytes:
        """All that the broker says on a stream."""
        self.until(lambda: stream_id in self.ended or stream_id in self.resets)
        assert stream_id not in self.resets, f"stream {stream_id} was reset"
        return bytes(self.streams.pop(stream_id))

    def until(self, condition: Callable[[], bool], timeout_s: float | None = None) -> None:
        """Receive until something holds; ConnectionError if the connection ends before that."""
        deadline = time.monotonic() + (self.timeout_s if timeout_s is None else timeout_s)
        self.flush()
        while not condition():
            if self.closed is not None:
                raise ConnectionResetError(str(self.closed))
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError("nothing within the deadline")
            self.step(left)

    def step(self, wait_s: float) -> None:
        """Receive what is there, or wait for something that long."""
        timer = self.quic.get_timer()
        if timer is not None:
            wait_s = min(wait_s, max(0.0, timer - time.monotonic()))
        if is_readable(self.udp, wait_s):
            self._receive()
        elif timer is not None and timer <= time.monotonic():
            self.quic.handle_timer(time.monotonic())
        while (event := self.quic.next_event()) is not None:
            self._take(event)
        self.flush()

    def _receive(self) -> None:
        while True:
            try:
                data = self.udp.recv(DATAGRAM_SIZE, socket.MSG_DONTWAIT)
            except BlockingIOError:
                return
            except ConnectionRefusedError:
                self.closed = ConnectionTerminated(0, None, "nothing listens there")
                return
            self.received_bytes += len(data)
            self.quic.receive_datagram(data, self.peer, time.monotonic())

    def _take(self, event: QuicEvent) -> None:
        if isinstance(event, StreamDataReceived):
            self.streams.setdefault(event.stream_id, bytearray()).extend(event.data)
            if event.end_stream:
                self.ended.add(event.stream_id)
        elif isinstance(event, StreamReset):
            self.resets[event.stream_id] = event.error_code
        elif isinstance(event, StopSendingReceived):
            self.stopped[event.stream_id] = event.error_code
        elif isinstance(event, HandshakeCompleted):
            self.is_open = True
        elif isinstance(event, ConnectionTerminated):
            self.closed = event

    def flush(self) -> None:
        """Send what is to be sent."""
        for datagram, _ in self.quic.datagrams_to_send(time.monotonic()):
            self.sent_bytes += len(datagram)
            try:
                self.udp.send(datagram)
            except ConnectionRefusedError:
                self.closed = ConnectionTerminated(0, None, "nothing listens there")

    def close(self) -> None:
        if self.udp.fileno() >= 0:
            self.quic.close()
            self.flush()
            self.udp.close()


class QuicSocket:
    """What a Wire needs of a socket."""

    def __init__(self, below: Quic) -> None:
        self.below = below
        self._unsent = bytearray()
        self._frames: deque[bytes] = deque()
        self._asked: deque[int] = deque()

    def sendall(self, data: bytes) -> None:
        self._unsent += data
        while (size := _frame_size(self._unsent)) and size <= len(self._unsent):
            self._frames.append(bytes(self._unsent[:size]))
            del self._unsent[:size]
        self._ask()
        # A large request leaves as the broker takes it.
        if self.below.quic.get_send_buffer_size():
            self.below.until(lambda: self.below.quic.get_send_buffer_size() == 0)

    def _ask(self) -> None:
        below = self.below
        while self._frames and len(self._asked) < STREAMS_MAX // 2:
            self._asked.append(below.send(self._frames.popleft()))

    def recv(self, size: int, flags: int = 0) -> bytes:
        below = self.below
        if below.udp.fileno() < 0:
            return b""  # it was closed here
        assert not flags & ~socket.MSG_DONTWAIT, "the only one that is known here"
        try:
            below.until(self._has_something, 0.0 if flags else None)
        except ConnectionResetError:
            return b""
        except TimeoutError:
            if flags:
                raise BlockingIOError from None
            raise
        found = below.streams[self._asked[0]]
        taken = bytes(found[:size])
        del found[:size]
        self._leave_ended()
        return taken

    def recv_into(self, view: memoryview) -> int:
        found = self.recv(len(view))
        view[: len(found)] = found
        return len(found)

    def _leave_ended(self) -> None:
        """On to the next answer. The end of a stream may come behind the last of its bytes."""
        below = self.below
        while self._asked and self._asked[0] in below.ended and not below.streams[self._asked[0]]:
            del below.streams[self._asked.popleft()]
            self._ask()

    def _has_something(self) -> bool:
        self._leave_ended()
        if not self._asked:
            return False
        if self._asked[0] in self.below.resets:
            raise ConnectionResetError(f"stream {self._asked[0]} was reset")
        return bool(self.below.streams[self._asked[0]])

    def settimeout(self, timeout_s: float | None) -> None:
        assert timeout_s is not None, "a test has a deadline"
        self.below.timeout_s = timeout_s

    def gettimeout(self) -> float:
        return self.below.timeout_s

    def getsockname(self) -> tuple[str, int]:
        return cast(tuple[str, int], self.below.udp.getsockname())

    def fileno(self) -> int:
        return self.below.udp.fileno()

    def shutdown(self, _how: int) -> None:
        self.below.close()

    def setsockopt(self, *_option: Any) -> None:
        """There is no TCP below."""

    def close(self) -> None:
        self.below.close()


def _frame_size(data: bytearray) -> int:
    """How long the first frame is; 0: not known yet."""
    if len(data) < U32.size:
        return 0
    (length,) = U32.unpack_from(data)
    if length:
        return U32.size + int(length)
    if len(data) < CONSENSUS_SIZE_AT + U32.size:
        return 0
    return int(U32.unpack_from(data, CONSENSUS_SIZE_AT)[0])
