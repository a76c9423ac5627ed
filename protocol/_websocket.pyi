"""The compiled frames of a WebSocket; explained where their plain twin is, plain_websocket.py."""

from typing import Final

# For the type checker this is the same class as its twin.
from borzoi.protocol.plain_websocket import Unframer as Unframer

LOOPS_VERSION: Final[int]

def masked(payload: bytes | memoryview, mask: bytes) -> bytes: ...
