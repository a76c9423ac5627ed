"""The compiled loops for encryption; explained where their plain twins are, in plain_seals.py."""

from typing import Final

from borzoi.protocol.plain_seals import Split

LOOPS_VERSION: Final[int]

def split_plain(batch: memoryview, at: int, bodies: memoryview, beside: memoryview) -> Split: ...
def join_sealed(
    stored: memoryview,
    at: int,
    beside: memoryview,
    message_count: int,
    bodies: memoryview,
    tail: bytes,
) -> int: ...
def split_sealed(
    stored: memoryview, at: int, first_offset: int, bodies: memoryview, beside: memoryview
) -> Split: ...
def join_plain(
    beside: memoryview, bodies: memoryview, first: int, last: int, plain: memoryview
) -> int: ...
