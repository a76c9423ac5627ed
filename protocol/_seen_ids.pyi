"""The compiled window of ids; explained where its plain twin is, in plain_seen_ids.py."""

from typing import Final

# For the type checker this is the same class as its twin.
from borzoi.protocol.plain_seen_ids import SeenIds as SeenIds

LOOPS_VERSION: Final[int]

def copy_stamps(batch: memoryview, survivors: memoryview, starts: bytes | bytearray) -> None: ...
def without_stored(
    batch: memoryview, message_count: int, stored: memoryview
) -> tuple[bytearray, int]: ...
