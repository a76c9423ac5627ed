"""The QUIC client of the tests: no answer is taken for another, however their bytes arrive."""

from collections.abc import Callable
from typing import cast

from tests.quic_socket import Quic, QuicSocket
from tests.wire import PING

ANSWER = b"the answer"


class Arriving:
    """A connection on which a test says what has arrived."""

    def __init__(self) -> None:
        self.streams: dict[int, bytearray] = {}
        self.ended: set[int] = set()
        self.resets: dict[int, int] = {}
        self.quic = self.udp = self
        self._sent = 0

    def fileno(self) -> int:
        return 0

    def get_send_buffer_size(self) -> int:
        return 0

    def send(self, _data: bytes) -> int:
        stream_id = 4 * self._sent
        self._sent += 1
        self.streams[stream_id] = bytearray()
        return stream_id

    def until(self, condition: Callable[[], bool], _timeout_s: float | None = None) -> None:
        if not condition():
            raise TimeoutError("nothing has arrived")


def test_the_end_of_an_answer_may_come_behind_its_last_byte() -> None:
    arriving = Arriving()
    asking = QuicSocket(cast(Quic, arriving))
    asking.sendall(PING)
    arriving.streams[0] += ANSWER
    assert asking.recv(100) == ANSWER
    arriving.ended.add(0)
    asking.sendall(PING)
    arriving.streams[4] += ANSWER
    arriving.ended.add(4)
    assert asking.recv(100) == ANSWER
