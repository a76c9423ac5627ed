"""The compiled headers of the consensus framing; explained where they are plain: plain_heads.py."""

from typing import Final

LOOPS_VERSION: Final[int]

def read_request(
    view: memoryview, start: int, end: int, session: int, bound_client: bytes
) -> tuple[int, bytes, bytes, int, int] | None: ...
def reply_with(
    size: int,
    checksum: bytes,
    client: bytes,
    count: int,
    number: int,
    operation: int,
    status: int,
    beginning: bytes,
) -> bytes: ...
