"""Messages that leave in another layout than the stored one, and how much of them at once.

A large answer is converted piece by piece. The client reads the first pieces while the next ones
are converted, and each piece is still in the processor's cache when the kernel copies it.
"""

import asyncio
from collections.abc import Iterable
from typing import Final

from borzoi.protocol.errors import CannotReadMessage
from borzoi.protocol.message_form import MessageForm
from borzoi.shards.doors.large_answer import break_off
from borzoi.shards.serving.reply import Messages

WHOLE_SIZE_MAX: Final = 256 * 1024
"""Up to so many stored bytes are converted at once."""


def converted(shows: MessageForm, reply: Messages) -> tuple[int, Iterable[bytes | memoryview]]:
    """The size of the messages as the client reads them, and these; raises CannotReadMessage."""
    views, partition_id = reply.views, reply.partition_id
    if reply.size <= WHOLE_SIZE_MAX:
        whole = shows.whole(views, partition_id)
        return len(whole), (whole,)
    return shows.size(views, partition_id), shows.pieces(views, partition_id)


def write_converted(transport: asyncio.Transport, parts: Iterable[bytes | memoryview]) -> None:
    """Hand over each part when it is made, all of them in this turn; the first one is a header."""
    parts = iter(parts)
    head = next(parts)
    try:
        for part in parts:
            if transport.is_closing():
                return
            transport.writelines((head, part) if head else (part,))
            head = b""
    except CannotReadMessage:
        break_off(transport)
