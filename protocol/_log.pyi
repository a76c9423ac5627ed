"""The compiled loops over the log; explained where their plain twins are, in plain_log.py."""

from collections.abc import Callable
from typing import Final

# For the type checker these are the same classes as their twins.
from borzoi.protocol.plain_log import RandomIds as RandomIds
from borzoi.protocol.plain_log import Scan

LOOPS_VERSION: Final[int]

def use_hash(address: int) -> None: ...
def stamp_batch(
    batch: memoryview,
    message_count: int,
    first_offset: int,
    timestamp: int,
    random_bytes: Callable[[int], bytes],
    segment_first_offset: int,
    position: int,
) -> bytearray: ...
def scan_log(
    view: memoryview,
    first_offset: int,
    *,
    segment_first_offset: int,
    position: int,
    timestamp_min: int = 0,
) -> Scan: ...
def first_bad_message(view: memoryview, message_count: int, first_offset: int) -> int | None: ...
def matching_messages(batch_stamped: memoryview, stored: memoryview) -> int: ...
def first_at_or_after(entries: memoryview, message_count: int, timestamp: int) -> int: ...
def message_start(batch: memoryview, number: int) -> int: ...
