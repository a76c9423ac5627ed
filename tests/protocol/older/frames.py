"""The checked-in frames of clients up to SDK 0.6."""

from typing import Final

from tests.protocol.values import GOLDEN

FRAME_HEADER_SIZE: Final = 8


def frames() -> dict[str, bytes]:
    """All of tests/golden/frames-older.txt by name."""
    lines = (GOLDEN / "frames-older.txt").read_text().splitlines()
    named = [line.split() for line in lines if not line.startswith("#")]
    return {name: bytes.fromhex(digits) for name, digits in named}


FRAMES: Final = frames()


def payload_of(name: str) -> memoryview:
    """A frame without its header."""
    return memoryview(FRAMES[name])[FRAME_HEADER_SIZE:]
