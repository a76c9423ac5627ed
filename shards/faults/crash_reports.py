"""What is left of a worker that died by a signal: a readable file, in the directory of the logs.

    <logs>/worker-<shard>-<time>.crash     which signal, when, the request in work, the traceback

The supervisor writes it. The traceback comes from the dying worker itself. The module faulthandler
writes it into a memfd that the supervisor holds. So workers that live well open and remove nothing,
and a full disk loses nothing before the report. A worker that was killed by another process
(SIGKILL: the kernel's, when memory is short) leaves none.

Always: at most REPORTS_MAX files are kept, the newest; no password, token or message is in them;
control characters of clients are escaped.
"""

import faulthandler
import logging
import os
import re
import signal
import time
from pathlib import Path
from typing import Final, NamedTuple

from borzoi import __version__
from borzoi.protocol.codes import Code
from borzoi.protocol.payload import U32
from borzoi.shards.faults.in_work import RequestInWork

LOG: Final = logging.getLogger(__name__)

REPORTS_MAX: Final = 20
SHOWN_SIZE_MAX: Final = 64
"""So many bytes of a payload are shown: consumer, stream and topic lie at its beginning."""

TRACE_SIZE_MAX: Final = 64 * 1024
FILE_MODE: Final = 0o640
NAME: Final = re.compile(r"worker-[0-9]{1,4}-([0-9]{8}T[0-9]{12}Z)\.crash")

SECRET_CODES: Final = range(Code.GET_USER, Code.LOGIN_WITH_PERSONAL_ACCESS_TOKEN + 1)
"""Users and tokens: some of these requests hold a password, and what is cut may hold another."""


class Death(NamedTuple):
    """How a worker ended."""

    shard: int
    generation: int
    pid: int
    number: int  # of the signal
    lived_s: float
    request: RequestInWork | None
    trace: str


def new_trace() -> int:
    """Memory for the last words of a worker: a descriptor, to be inherited."""
    return os.memfd_create("borzoi-trace", os.MFD_CLOEXEC)


def trace_into(fd: int) -> None:
    """In a worker: leave a traceback there when a fatal signal comes."""
    faulthandler.enable(file=fd, all_threads=True)


def read_trace(fd: int) -> str:
    """In the supervisor: what a dead worker has left there, empty if nothing."""
    return os.pread(fd, TRACE_SIZE_MAX, 0).decode(errors="backslashreplace")


def signal_name(number: int) -> str:
    """SIGBUS for 7."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def describe(death: Death, now_s: float) -> str:
    """The report."""
    moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now_s))
    lines = [
        f"borzoi {__version__}: shard {death.shard}, generation {death.generation},"
        f" process {death.pid}",
        f"ended by {signal_name(death.number)} ({death.number}) at {moment}"
        f" after {death.lived_s:.1f} s",
        *_lines_of(death.request),
        "",
        death.trace or "it has left no traceback",
    ]
    return "\n".join(lines).rstrip("\n") + "\n"


def _lines_of(request: RequestInWork | None) -> list[str]:
    if request is None:
        return ["no request of a client was begun and not ended"]
    try:
        name = Code(request.code).name
    except ValueError:
        name = "unknown"
    if request.asked_by is not None:
        user = f"of a client of shard {request.asked_by}"
    else:
        user = "not logged in" if request.user_id is None else f"user {request.user_id}"
    lines = [f"request in work: {name} ({request.code}), {request.length} bytes, {user}"]
    shown = _shown(request)
    if shown is None:
        lines.append("its bytes are not shown: they may hold a password")
    else:
        lines.append(f"begins with {shown.hex(' ')}")
        lines.append(f"as text {shown.decode('ascii', 'backslashreplace')!a}")
    return lines


def _shown(request: RequestInWork) -> bytes | None:
    """Returns the bytes that a report may show; None if none. Of a batch only where it goes."""
    if request.code in SECRET_CODES:
        return None
    head = request.head
    if request.code == Code.SEND_MESSAGES:
        if len(head) < U32.size:
            return head
        head = head[: U32.size + U32.unpack_from(head)[0]]
    return head[:SHOWN_SIZE_MAX]


class CrashReports:
    """The reports in one directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def write(self, death: Death, now_s: float) -> Path | None:
        """Keep a report, and the newest of those before; None if that cannot be done."""
        micros = int(now_s * 1_000_000)
        moment = time.strftime("%Y%m%dT%H%M%S", time.gmtime(micros // 1_000_000))
        name = f"worker-{death.shard}-{moment}{micros % 1_000_000:06d}Z.crash"
        path = self._directory / name
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            with os.fdopen(os.open(path, flags, FILE_MODE), "w") as file:
                file.write(describe(death, now_s))
            self._remove_old()
        except OSError as error:
            LOG.warning("no report of the death of shard %d: %s", death.shard, error)
            return None
        return path

    def _remove_old(self) -> None:
        found = []
        for name in os.listdir(self._directory):
            match = NAME.fullmatch(name)
            if match is not None:
                found.append((match[1], name))
        for _, name in sorted(found)[:-REPORTS_MAX]:
            (self._directory / name).unlink(missing_ok=True)
