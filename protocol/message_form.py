"""How a generation of clients shows messages that it does not read as they are stored.

A form is pure and has no state. Messages come in as views of the log, whole messages in each view,
and leave converted. Because the length of an answer stands before it, `size` walks over the heads
of all messages first; `pieces` then converts as far as it is asked to, so that a large answer is
converted in turns and never lies in memory as a whole.
"""

from collections.abc import Iterator, Sequence
from typing import Protocol


class MessageForm(Protocol):
    """Messages as one generation reads them."""

    partition_base: int
    """The number of the first partition."""

    def size(self, views: Sequence[memoryview], partition_id: int) -> int:
        """The bytes of all pieces."""

    def pieces(
        self, views: Sequence[memoryview], partition_id: int
    ) -> Iterator[bytes | memoryview]:
        """The messages, converted; each piece is made of at most about 1 MiB of the log."""
