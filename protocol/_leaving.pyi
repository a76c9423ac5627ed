"""The compiled loops over what leaves; explained where they are plain, in plain_leaving.py."""

from collections.abc import Sequence
from typing import Final

LOOPS_VERSION: Final[int]

def converted_size(layout: int, views: Sequence[memoryview]) -> int: ...
def converted(layout: int, views: Sequence[memoryview], partition_id: int) -> bytes: ...
def converted_piece(
    layout: int, view: memoryview, start: int, partition_id: int, is_last: bool
) -> tuple[bytes, int]: ...
