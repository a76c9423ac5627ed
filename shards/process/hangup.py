"""What SIGHUP asks for: the end of a broker whose terminal is gone, otherwise renewed certificates.

The kernel sends it when a terminal goes, and administrators send it to have files read again. A
process whose terminal is gone has none to open any more; one that never had one was not started
from it.
"""

import os


def has_terminal() -> bool:
    """Whether there is a terminal from which this process can be stopped."""
    try:
        fd = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return False
    os.close(fd)
    return True


class Hangup:
    """Remembers whether there was a terminal at the start."""

    def __init__(self) -> None:
        self._had_terminal = has_terminal()

    @property
    def is_of_terminal(self) -> bool:
        """Whether the terminal of the start is gone."""
        return self._had_terminal and not has_terminal()
