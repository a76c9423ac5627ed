"""Cursors: the positions that consumers keep. Pure.

A cursor is stored verbatim: some clients mean the last offset they have seen, others the next one.
"""

from typing import Final

from borzoi.liftbridge.refusals import invalid

CURSOR_KEY_SIZE_MAX: Final = 1024
"""The id, the stream and the partition of one cursor, in bytes."""


def cursor_key(cursor_id: str, stream: str, partition: int) -> str:
    """The key of a cursor, as the reference server has it in its `__cursors`."""
    if not stream:
        raise invalid("No stream provided")
    if not cursor_id:
        raise invalid("No cursorId provided")
    key = f"{cursor_id},{stream},{partition}"
    if len(key.encode()) > CURSOR_KEY_SIZE_MAX:
        raise invalid(f"the cursor's key has more than {CURSOR_KEY_SIZE_MAX} bytes")
    return key
