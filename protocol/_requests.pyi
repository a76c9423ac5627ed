"""The compiled loops over requests; explained where their plain twins are, in plain_requests.py."""

from typing import Final, TypeVar

from borzoi.protocol.identifiers import Identifier, Partitioning

LOOPS_VERSION: Final[int]
T = TypeVar("T")

def read_sent_batch(
    payload: memoryview, metadata_start: int, metadata_end: int
) -> tuple[Identifier, Identifier, Partitioning, int, int]: ...
def check_sent_batch(indexes: memoryview, messages: memoryview, message_count: int) -> None: ...
def find_send(payload: memoryview, routes: dict[bytes, T]) -> tuple[T, int, int] | None: ...
def find_poll(
    payload: memoryview, routes: dict[bytes, T]
) -> tuple[T, int, int, int, int] | None: ...
