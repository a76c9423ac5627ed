"""What a test leaves open is closed at its end: nothing collects descriptors, they are numbers."""

from collections.abc import Callable

from borzoi.storage.files import Files
from borzoi.storage.open_files import OpenFiles

_endings: list[Callable[[], None]] = []


def at_the_end(close: Callable[[], None]) -> None:
    """Call this when the test is over; the last one first."""
    _endings.append(close)


def end_all() -> None:
    while _endings:
        _endings.pop()()


def new_open_files(files: Files, limit: int) -> OpenFiles:
    """Open files that are closed when the test is over, unless it has closed them itself."""
    open_files = OpenFiles(files, limit)
    at_the_end(open_files.close)
    return open_files
