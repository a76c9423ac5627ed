"""The compiled loops over what arrives; explained where they are plain, in plain_arriving.py."""

from typing import Final, TypeVar

LOOPS_VERSION: Final[int]
T = TypeVar("T")

def find_consensus_send(
    payload: memoryview, routes: dict[bytes, T]
) -> tuple[T, int, memoryview] | None: ...
def stored_from_consensus(body: memoryview, message_count: int) -> bytearray: ...
def stored_from_old(messages: memoryview, origin_timestamp: int = 0) -> tuple[int, bytearray]: ...
def stored_from_short(
    indexes: memoryview, messages: memoryview, message_count: int
) -> bytearray: ...
