"""A WebSocket client of the tests, written from RFC 6455 without the code under test."""

import base64
import os
import socket
import struct
from typing import Any, Final, NamedTuple, cast

BINARY: Final = 2
CLOSE: Final = 8
PING: Final = 9
PONG: Final = 10
MASK: Final = bytes.fromhex("a1b2c3d4")
RECEIVE_SIZE: Final = 1 << 20


def frame(
    opcode: int, payload: bytes = b"", *, final: bool = True, mask: bytes | None = MASK
) -> bytes:
    """A frame; without a mask, as a server sends it."""
    size = len(payload)
    masks = 0x80 if mask is not None else 0
    head = bytes((0x80 * final | opcode,))
    if size < 126:
        head += bytes((masks | size,))
    elif size < 1 << 16:
        head += bytes((masks | 126,)) + struct.pack(">H", size)
    else:
        head += bytes((masks | 127,)) + struct.pack(">Q", size)
    if mask is None:
        return head + payload
    pattern = (mask * (size // 4 + 1))[:size]
    number = int.from_bytes(payload, "little") ^ int.from_bytes(pattern, "little")
    return head + mask + number.to_bytes(size, "little")


def request(host: str = "localhost", **fields: str) -> bytes:
    """The request that opens a WebSocket."""
    named = {
        "Host": host,
        "Upgrade": "websocket",
        "Connection": "Upgrade",
        "Sec-WebSocket-Key": base64.b64encode(os.urandom(16)).decode(),
        "Sec-WebSocket-Version": "13",
        **fields,
    }
    lines = [f"{name}: {value}\r\n" for name, value in named.items()]
    return f"GET / HTTP/1.1\r\n{''.join(lines)}\r\n".encode()


class Frame(NamedTuple):
    """A frame of the broker."""

    opcode: int
    payload: bytes


class WebSocketStream:
    """A socket whose bytes travel in binary messages: what is sent in one call is one message.

    What it does not do itself, the socket below does.
    """

    def __init__(self, below: socket.socket) -> None:
        self.below = below
        self._received = bytearray()  # from the socket, not taken apart yet
        self._payload = bytearray()
        self.controls: list[Frame] = []
        """Control frames that came before what was read last."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self.below, name)

    def open(self) -> "WebSocketStream":
        """Ask for a WebSocket; AssertionError if that is refused."""
        self.below.sendall(request())
        head = self._until(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 101 "), head
        return self

    def sendall(self, data: bytes | memoryview) -> None:
        self.below.sendall(frame(BINARY, bytes(data)))

    def recv(self, size: int) -> bytes:
        while not self._payload:
            found = self.next_frame()
            if found is None:
                return b""
            if found.opcode == BINARY:
                self._payload += found.payload
            else:
                self.controls.append(found)
        taken = bytes(self._payload[:size])
        del self._payload[:size]
        return taken

    def recv_into(self, view: memoryview) -> int:
        taken = self.recv(len(view))
        view[: len(taken)] = taken
        return len(taken)

    def next_frame(self) -> Frame | None:
        """The next frame, None at the end of the connection."""
        if not self._fill(2):
            return None
        first, second = self._received[:2]
        assert first & 0x80, "the broker sends whole messages"
        assert not first & 0x70, "no extension was agreed on"
        assert not second & 0x80, "a server does not mask"
        size, at = second & 0x7F, 2
        if size >= 126:
            at = 4 if size == 126 else 10
            assert self._fill(at)
            size = int.from_bytes(self._received[2:at], "big")
        assert self._fill(at + size)
        payload = bytes(self._received[at : at + size])
        del self._received[: at + size]
        return Frame(first & 0x0F, payload)

    def close_code(self) -> int | None:
        """Read to the end; the code of the close frame, None if there was none."""
        code = None
        while (found := self.next_frame()) is not None:
            if found.opcode == CLOSE:
                code = int.from_bytes(found.payload[:2], "big")
        return code

    def _until(self, mark: bytes) -> bytes:
        while mark not in self._received:
            assert self._receive(), bytes(self._received)
        head, _, rest = self._received.partition(mark)
        self._received = rest
        return bytes(head)

    def _fill(self, size: int) -> bool:
        while len(self._received) < size:
            if not self._receive():
                return False
        return True

    def _receive(self) -> bool:
        try:
            received = self.below.recv(RECEIVE_SIZE)
        except ConnectionResetError:
            return False
        self._received += received
        return bool(received)


def as_socket(below: socket.socket) -> socket.socket:
    """A WebSocket in place of a socket, for a Wire."""
    return cast(socket.socket, WebSocketStream(below).open())
