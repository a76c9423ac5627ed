"""Writes what recorded clients wrote, in the recorded order, and compares every answer.

A request goes out once all answers recorded before it are there, so one shard decides in the same
order as then. The close of a client is complete when the broker has closed its side too: what a
connection leaves behind (a place in a group) is settled before the next step.
"""

from collections import deque
from typing import Final

from tests.replay.cutting import AnswerCutter, Request, RequestCutter
from tests.replay.doors import Door
from tests.replay.masks import Renaming
from tests.replay.session import Event, Kind, Session

DIFFERENCES_MAX: Final = 20
RECEIVE_SIZE: Final = 1 << 20


class Player:
    """One replay against one broker."""

    def __init__(self, door: Door) -> None:
        self._door = door
        self._connections: dict[int, _Connection] = {}
        self._renaming = Renaming(door.transport)
        self.differences: list[str] = []
        self.answers_count = 0

    def play(self, session: Session) -> list[str]:
        """All steps; the differences that were found, each with the number of its step."""
        try:
            for number, event in enumerate(session.events):
                try:
                    said = self._step(event)
                except (OSError, EOFError) as error:
                    said = f"{type(error).__name__}: {error}"
                if said is not None:
                    self.differences.append(f"step {number}, connection {event.connection}: {said}")
                    if len(self.differences) >= DIFFERENCES_MAX:
                        break
        finally:
            for connection in self._connections.values():
                connection.socket.close()
        return self.differences

    def _step(self, event: Event) -> str | None:
        if event.kind is Kind.OPEN:
            self._connections[event.connection] = _Connection(self._door)
            return None
        connection = self._connections[event.connection]
        match event.kind:
            case Kind.WRITTEN:
                connection.write(event.data, self._renaming)
                return None
            case Kind.ANSWER:
                answer = connection.answer()
                self.answers_count += 1
                request = connection.asked.popleft() if connection.asked else Request(0, b"")
                found = self._renaming.difference(request.code, event.data, answer)
                return found and f"command {request.code} {request.payload.hex()}: {found}"
            case Kind.EOF:
                return connection.end()
        return connection.unexpected()


class _Connection:
    """One client. Requests wait for their answers in the order in which they went out."""

    def __init__(self, door: Door) -> None:
        self._door = door
        self.socket = door.connect()
        self.asked: deque[Request] = deque()
        self._requests = RequestCutter()
        self._answers = AnswerCutter()
        self._ready: deque[bytes] = deque()

    def write(self, data: bytes, renaming: Renaming) -> None:
        """The recorded bytes. Only a chunk of exactly one request is translated."""
        found = self._requests.cut(data)
        self.asked.extend(found)
        if len(found) == 1 and len(data) == 8 + len(found[0].payload):
            translated = renaming.translate(found[0])
            if translated is not found[0]:
                length = (4 + len(translated.payload)).to_bytes(4, "little")
                data = length + data[4:8] + translated.payload
        self.socket.sendall(data)

    def answer(self) -> bytes:
        """The next answer; EOFError when the broker has closed the connection instead."""
        while not self._ready:
            data = self.socket.recv(RECEIVE_SIZE)
            if not data:
                raise EOFError("the broker has closed the connection")
            self._ready.extend(self._answers.cut(data))
        return self._ready.popleft()

    def end(self) -> str | None:
        """Ends our side, and waits for the other one."""
        self._door.end(self.socket)
        return self.unexpected()

    def unexpected(self) -> str | None:
        """Waits for the end of the connection; what came before it, which should be nothing."""
        try:
            while data := self.socket.recv(RECEIVE_SIZE):
                self._ready.extend(self._answers.cut(data))
        except ConnectionResetError:
            pass
        self.socket.close()
        left = b"".join(self._ready) + bytes(self._answers.waiting)
        return f"unexpected bytes before the end: {left.hex()}" if left else None
