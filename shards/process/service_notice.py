"""Messages for a service manager: the broker is ready, stops, is alive (sd_notify).

systemd names a datagram socket in NOTIFY_SOCKET, and in WATCHDOG_USEC after which silence it takes
the service for dead. Where neither is set, nothing is sent.
"""

import os
import socket
from collections.abc import Mapping
from typing import Final

ABSTRACT: Final = "@"
"""Begins the name of a socket that is no file."""


class ServiceNotice:
    """Tells the manager that has started this process, if one listens."""

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        name = environ.get("NOTIFY_SOCKET", "")
        self._address = f"\0{name[1:]}" if name.startswith(ABSTRACT) else name
        own = environ.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        self._is_watched = own and environ.get("WATCHDOG_USEC", "").isdigit()

    def ready(self, status: str) -> None:
        """The doors are open."""
        self._tell(f"READY=1\nSTATUS={status}")

    def alive(self) -> None:
        """The supervisor turns; to be called at least twice in the time of the watchdog."""
        if self._is_watched:
            self._tell("WATCHDOG=1")

    def stopping(self) -> None:
        """No more connections are taken."""
        self._tell("STOPPING=1")

    def _tell(self, text: str) -> None:
        if not self._address:
            return
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as sending:
            try:
                sending.sendto(text.encode(), self._address)
            except OSError:
                # A manager that is gone or busy hears the next one, a second later.
                return
