"""How a command asks a running broker to exchange its key: by a file in its data directory.

The directory is readable for the broker's user alone, and a file needs no process id, which could
be that of another program by now. The supervisor looks once a second. A request that cannot be
carried out is answered with the reason in another file; an exchange shows in `encryption-check`.
"""

import os
from typing import Final

from borzoi.storage.files import Files
from borzoi.storage.layout import DataLayout

REQUEST: Final = "key-exchange"
REFUSAL: Final = "key-exchange.refused"
REFUSAL_SIZE_MAX: Final = 4096


def ask(layout: DataLayout, files: Files) -> None:
    """Leave a request for the broker that runs on this directory."""
    files.unlink_if_there(_path(layout, REFUSAL))
    files.write_atomically(_path(layout, REQUEST), b"")


def is_asked(layout: DataLayout) -> bool:
    """Whether there is a request."""
    return os.path.exists(_path(layout, REQUEST))


def take_request(layout: DataLayout, files: Files) -> None:
    """The request is being carried out."""
    files.unlink_if_there(_path(layout, REQUEST))


def refuse(layout: DataLayout, files: Files, reason: str) -> None:
    """Leave the reason where the command looks for it."""
    files.write_atomically(_path(layout, REFUSAL), reason.encode())


def refusal(layout: DataLayout, files: Files) -> str | None:
    """Why the broker does not do what it was asked for, if it does not."""
    data = files.read_all(_path(layout, REFUSAL), REFUSAL_SIZE_MAX)
    return None if data is None else data.decode(errors="replace")


def _path(layout: DataLayout, name: str) -> str:
    return os.path.join(layout.runtime, name)
