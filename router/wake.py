"""The bell of a shard: one eventfd that any peer may ring and only the shard answers.

A peer that pushed something to a shard rings once per loop turn, always. There is no "asleep" flag
to look at first. The processor may swap a store and a load behind it, so two shards could each miss
the other's flag. The kernel's counter cannot be lost.

The shard that is rung reads its eventfd first and drains its rings afterwards. In the other order a
push between the two would be slept through.
"""

import os


class Wake:
    """One end of a shard's eventfd. The descriptor belongs to its maker, which closes it."""

    __slots__ = ("fd",)

    def __init__(self, fd: int) -> None:
        self.fd = fd

    @classmethod
    def create(cls) -> "Wake":
        """A new bell, silent, not inherited by children unless passed to them."""
        return cls(os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC))

    def notify(self) -> None:
        """Ring. Ringing twice before the shard looks is the same as ringing once."""
        try:
            os.eventfd_write(self.fd, 1)
        except BlockingIOError:
            # The counter is full: the shard has not looked for 2^64 rings and will wake anyway.
            return

    def clear(self) -> bool:
        """Stop the ringing; True if it rang. Drain the rings after this, never before."""
        try:
            os.eventfd_read(self.fd)
        except BlockingIOError:
            return False
        return True

    def close(self) -> None:
        """Close the descriptor. Further calls fail."""
        os.close(self.fd)
