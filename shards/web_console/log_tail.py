"""The newest lines of the log, and what has come since: GET /logs, for users that read servers.

An answer ends with a mark, the file and the position behind its last line. A request that names it
is answered with the lines behind it, also if the file was rotated meanwhile.
"""

import asyncio
import os
from concurrent.futures import Executor
from pathlib import Path
from typing import Annotated, Final, NamedTuple

import msgspec

from borzoi.protocol.codes import Code
from borzoi.quantities import KIB
from borzoi.shards.directory.log_file import log_files
from borzoi.shards.metadata.access import require
from borzoi.shards.web_connections.exchange import Exchange
from borzoi.shards.web_forms.failures import plain

PORTION_SIZE_MAX: Final = 256 * KIB
LINES_MAX: Final = 2_000


class LogQuery(msgspec.Struct, frozen=True):
    """How many of the newest lines; or all that came behind the mark of an earlier answer."""

    lines: Annotated[int, msgspec.Meta(ge=1, le=LINES_MAX)] = 200
    after: str = ""


class LogAnswer(msgspec.Struct, frozen=True):
    """Lines as they stand in the log, oldest first. `skipped`: bytes that were left out."""

    lines: list[str]
    mark: str
    skipped: int = 0


class LogPlace(NamedTuple):
    """A place in a log file, which keeps its number when it is renamed."""

    file: int
    position: int


class LogTail:
    """The log of this broker. `thread` reads the files."""

    def __init__(self, directory: Path, thread: Executor) -> None:
        self._directory = directory
        self._thread = thread

    async def show(self, one: Exchange) -> LogAnswer:
        """The answer to a request. Needs the permission to read servers."""
        require(one.services.metadata.refresh(), one.caller.user, Code.GET_STATS)
        query: LogQuery = one.query
        mark = _mark(query.after) if query.after else None
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, self.read, query.lines, mark)

    def read(self, lines: int, mark: LogPlace | None) -> LogAnswer:
        """The newest lines, or those behind a mark. Waits for the disk."""
        behind = None if mark is None else self._behind(mark)
        if behind is not None:
            data, skipped, end = behind
            return _answer(data, skipped, end, LINES_MAX)
        data, skipped, end = self._newest()
        return _answer(data, skipped, end, lines)

    def _newest(self) -> tuple[bytes, int, LogPlace]:
        """The last portion of all files together; what is before it is not counted."""
        data, end = b"", LogPlace(0, 0)
        for path in reversed(log_files(self._directory)):
            piece, _, here = _read(path, None, PORTION_SIZE_MAX - len(data))
            data = piece + data
            end = end if end.file else here
            if len(data) >= PORTION_SIZE_MAX:
                # The first line is cut somewhere.
                data = data.partition(b"\n")[2]
                break
        return data, 0, end

    def _behind(self, mark: LogPlace) -> tuple[bytes, int, LogPlace] | None:
        """What came behind a mark; None if its file is not there any more."""
        data, skipped, end, found = b"", 0, mark, False
        for path in log_files(self._directory):
            number = _number(path)
            if not found and number != mark.file:
                continue
            start = mark.position if number == mark.file else 0
            found = True
            piece, left_out, end = _read(path, start, PORTION_SIZE_MAX)
            data, skipped = data + piece, skipped + left_out
        if len(data) > PORTION_SIZE_MAX:
            skipped += len(data) - PORTION_SIZE_MAX
            data = data[-PORTION_SIZE_MAX:].partition(b"\n")[2]
        return (data, skipped, end) if found else None


def _number(path: Path) -> int:
    try:
        return path.stat().st_ino
    except FileNotFoundError:
        return 0


def _read(path: Path, start: int | None, size_max: int) -> tuple[bytes, int, LogPlace]:
    """The end of a file from `start` on, in whole lines; what was left out; the place behind."""
    try:
        with path.open("rb") as file:
            facts = os.fstat(file.fileno())
            first = max(0 if start is None else start, facts.st_size - size_max)
            file.seek(first)
            data = file.read(size_max)
    except FileNotFoundError:
        # Rotated out of the way while we looked.
        return b"", 0, LogPlace(0, 0)
    whole = data[: data.rfind(b"\n") + 1]
    left_out = 0 if start is None else max(0, first - start)
    if left_out:
        whole = whole.partition(b"\n")[2]
    return whole, left_out, LogPlace(facts.st_ino, first + data.rfind(b"\n") + 1)


def _answer(data: bytes, skipped: int, end: LogPlace, lines_max: int) -> LogAnswer:
    lines = data.decode(errors="replace").splitlines()
    return LogAnswer(lines[-lines_max:], f"{end.file}-{end.position}", skipped)


def _mark(text: str) -> LogPlace:
    parts = text.split("-")
    if len(parts) != len(LogPlace._fields) or not all(
        part.isascii() and part.isdigit() and len(part) <= len(str(1 << 64)) for part in parts
    ):
        raise plain(400, f"after is {text[:64]!r}: needs the mark of an earlier answer")
    return LogPlace(*map(int, parts))
