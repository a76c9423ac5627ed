"""Takes the frames of a WebSocket (RFC 6455) off its bytes, in plain Python: _websocket.pyx's twin.

The payloads of binary messages are a stream of bytes, in which frames and messages mean nothing.
They are unmasked and moved to the front of the buffer in which they arrived, over the heads that
lay between them. So nothing is kept here but the rest of a head or of a control frame, at most
139 bytes, however long a frame says that it is.

    a frame   | final, opcode u8 | masked, length u8 | length u16/u64 | mask 4 | payload |

Always: nothing of the buffer is touched behind `size`. Once there is a `failure` or a `closing`,
nothing is taken any more.
"""

from typing import Final

CONTINUATION: Final = 0
TEXT: Final = 1
BINARY: Final = 2
CLOSE: Final = 8
PING: Final = 9
PONG: Final = 10
OPCODES: Final = frozenset({CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG})

FINAL: Final = 0x80
RESERVED: Final = 0x70
OPCODE: Final = 0x0F
MASKED: Final = 0x80
LENGTH: Final = 0x7F
LENGTH_16: Final = 126
LENGTH_64: Final = 127
CONTROL_SIZE_MAX: Final = 125
LENGTH_MAX: Final = 2**63 - 1
MASK_SIZE: Final = 4

PROTOCOL_ERROR: Final = 1002
TOO_BIG: Final = 1009

FROM_CLIENT: Final = 1
FROM_SERVER: Final = 2
FROM_EITHER: Final = 3
"""Which frames are taken: masked ones, others, or both."""

HEAD_SIZE_MIN: Final = 2
LONG_FORMS: Final = {LENGTH_16: (2, LENGTH_16), LENGTH_64: (8, 1 << 16)}
"""What a length that does not fit into seven bits takes, and where it begins to be allowed."""


class Unframer:
    """The frames of one side of a connection."""

    def __init__(self, takes: int, frame_size_max: int, message_size_max: int) -> None:
        self._takes = takes
        self._frame_size_max = frame_size_max
        self._message_size_max = message_size_max
        self._head = bytearray()
        self._opcode = -1  # of the frame whose payload comes now
        self._final = False
        self._mask = b""
        self._left = 0
        self._message = -1  # its opcode, while one has begun and not ended
        self._message_size = 0
        self._control = bytearray()
        self.ping: bytes | None = None
        """What the last ping carried; its answer sets this to None."""
        self.closing: bytes | None = None
        """What the close frame of the peer carried."""
        self.failure = 0
        """Why the bytes cannot be understood, as a close code; 0: they can."""

    @property
    def is_between(self) -> bool:
        """Whether the next byte begins a frame."""
        return self._opcode < 0 and not self._head

    def take(self, buffer: memoryview, size: int) -> int:
        """How many bytes of payload the first `size` bytes held; they lie at the front now."""
        at = kept = 0
        while at < size and not self.failure and self.closing is None:
            if self._opcode < 0:
                self._head.append(buffer[at])
                at += 1
                self._read_head()
                continue
            present = min(self._left, size - at)
            payload = self._unmasked(buffer[at : at + present])
            at += present
            if self._opcode >= CLOSE:
                self._control += payload
            elif self._message == BINARY:
                buffer[kept : kept + present] = payload
                kept += present
            self._left -= present
            if self._left == 0:
                self._end_frame()
        return kept

    def _read_head(self) -> None:
        """Judge what is there of a head; at its end a payload begins."""
        head = self._head
        if len(head) < HEAD_SIZE_MIN:
            return
        length = head[1] & LENGTH
        if len(head) == HEAD_SIZE_MIN and not self._is_allowed(head[0], head[1], length):
            self.failure = PROTOCOL_ERROR
            return
        length_size, length_min = LONG_FORMS.get(length, (0, 0))
        mask_at = HEAD_SIZE_MIN + length_size
        if len(head) < mask_at:
            return
        if length_size:
            length = int.from_bytes(head[HEAD_SIZE_MIN:mask_at], "big")
        if not length_min <= length <= LENGTH_MAX:
            self.failure = PROTOCOL_ERROR
            return
        if len(head) < mask_at + MASK_SIZE * bool(head[1] & MASKED):
            return
        self._begin_frame(head[0], length, bytes(head[mask_at:]))

    def _is_allowed(self, first: int, second: int, length: int) -> bool:
        """Whether a frame may begin with these two bytes, here."""
        opcode = first & OPCODE
        if first & RESERVED or opcode not in OPCODES:
            return False
        if not self._takes & (FROM_CLIENT if second & MASKED else FROM_SERVER):
            return False
        if opcode >= CLOSE:
            return bool(first & FINAL) and length <= CONTROL_SIZE_MAX
        return (opcode == CONTINUATION) == (self._message >= 0)

    def _begin_frame(self, first: int, length: int, mask: bytes) -> None:
        opcode = first & OPCODE
        if opcode < CLOSE:
            if opcode != CONTINUATION:
                self._message = opcode
                self._message_size = 0
            self._message_size += length
            if length > self._frame_size_max or self._message_size > self._message_size_max:
                self.failure = TOO_BIG
                return
        self._head.clear()
        self._opcode = opcode
        self._final = bool(first & FINAL)
        self._mask = mask
        self._left = length
        if length == 0:
            self._end_frame()

    def _end_frame(self) -> None:
        opcode, self._opcode = self._opcode, -1
        if opcode < CLOSE:
            if self._final:
                self._message = -1
            return
        carried = bytes(self._control)
        self._control.clear()
        if opcode == PING:
            self.ping = carried
        elif opcode == CLOSE:
            self.closing = carried

    def _unmasked(self, payload: memoryview) -> bytes:
        """The payload; the mask is turned, so that it begins where the next bytes do."""
        mask, size = self._mask, len(payload)
        if not mask:
            return bytes(payload)
        turn = size % MASK_SIZE
        self._mask = mask[turn:] + mask[:turn]
        return masked(payload, mask)


def masked(payload: bytes | memoryview, mask: bytes) -> bytes:
    """The payload under a mask of four bytes, or a masked one as it was."""
    size = len(payload)
    pattern = (mask * (size // MASK_SIZE + 1))[:size]
    number = int.from_bytes(payload, "little") ^ int.from_bytes(pattern, "little")
    return number.to_bytes(size, "little")
