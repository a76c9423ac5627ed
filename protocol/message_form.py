"""What a poll shows to clients that know messages in another layout than the stored one.

A form is pure and has no state. The length of an answer stands before it, so `size` walks over the
heads of all messages first; `pieces` then converts as far as it is asked to. A large answer is
converted in turns and never lies in memory as a whole.
"""

from collections.abc import Iterator, Sequence
from typing import Protocol


class MessageForm(Protocol):
    """How stored messages leave for one kind of client.

    `views` are stored messages, whole ones in each view. `partition_id` counts from 0, as the
    broker does.
    """

    @property
    def partition_base(self) -> int:
        """What is added to a partition id where the client reads it."""

    def size(self, views: Sequence[memoryview], partition_id: int) -> int:
        """How many bytes pieces() gives, exactly."""

    def pieces(self, views: Sequence[memoryview], partition_id: int) -> Iterator[bytes]:
        """The messages as they leave, converted when asked for, about a MiB at a time."""

    def whole(self, views: Sequence[memoryview], partition_id: int) -> bytes:
        """All pieces at once: for a poll that is small, cheaper than size() and pieces()."""
