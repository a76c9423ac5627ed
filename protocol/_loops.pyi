"""The compiled loops; explained where their plain twins are, in plain_loops.py."""

from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from borzoi.protocol.identifiers import Identifier, Partitioning
from borzoi.protocol.message import Message

# For the type checker these are the same classes as their twins.
from borzoi.protocol.plain_loops import RandomIds as RandomIds
from borzoi.protocol.plain_loops import Scan

LOOPS_VERSION: Final[int]
T = TypeVar("T")

def use_hash(address: int) -> None: ...
def read_sent_batch(
    payload: memoryview, metadata_start: int, metadata_end: int
) -> tuple[Identifier, Identifier, Partitioning, int, int]: ...
def check_sent_batch(indexes: memoryview, messages: memoryview, message_count: int) -> None: ...
def find_send(payload: memoryview, routes: dict[bytes, T]) -> tuple[T, int, int] | None: ...
def find_poll(
    payload: memoryview, routes: dict[bytes, T]
) -> tuple[T, int, int, int, int] | None: ...
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
def sent_index(batch: memoryview, message_count: int) -> bytearray: ...
def encode_batch(messages: Sequence[Message]) -> bytes: ...
def encode_outgoing(
    messages: Sequence[bytes | Message], origin_timestamp: int, new_ids: bytes = b""
) -> bytes: ...
def decode_batch(view: memoryview, at: int = 0) -> list[Message]: ...
