"""What a snapshot of the broker consists of: one text for each type of GET_SNAPSHOT.

For finding a fault on a machine without a login there. Runs in a thread: it reads files and starts
programs. Every text is bounded. Programs that are missing or slow are named in the text, and a part
that fails says so instead of spoiling the others.

Always: no arguments and no environment of any process, no file but those named here, and never
the file of a generated root password. Secrets that the broker knows are masked in every text, in
case one of its sources contains them after all.
"""

import os
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from stat import filemode
from typing import Final, NamedTuple

import psutil

from borzoi.protocol.commands.system import SnapshotType
from borzoi.shards.directory.log_file import log_files
from borzoi.shards.directory.used_layout import layout_of
from borzoi.shards.identity.root_account import ROOT_PASSWORD_FILE
from borzoi.shards.observing.programs import run_command
from borzoi.shards.observing.usage import broker_pids
from borzoi.storage.files import Files
from borzoi.storage.ratio import TopicRatio, ratio_lines, topic_ratios

PART_SIZE_MAX: Final = 4 * 1024 * 1024
LOGS_SIZE_MAX: Final = 16 * 1024 * 1024
FILES_LISTED_MAX: Final = 5_000
TASKS_LISTED_MAX: Final = 256
COLLECT_TIME_MAX_S: Final = 10.0

MASK: Final = b"******"
SECRET_LENGTH_MIN: Final = 8
"""Shorter secrets would blot out ordinary words, and no source is expected to tell any."""

# Names of programs, not their arguments.
LIST_PROCESSES: Final = ("ps", "-e", "-o", "pid,ppid,user,stat,nlwp,pcpu,pmem,rss,etime,comm")
LIST_THREADS: Final = ("top", "-H", "-b", "-n", "1")
PROCESS_FILES: Final = ("status", "limits", "io", "cgroup")
MACHINE_FILES: Final = (
    "/proc/loadavg",
    "/proc/meminfo",
    "/proc/pressure/cpu",
    "/proc/pressure/io",
    "/proc/pressure/memory",
)

EVERYTHING: Final = (
    SnapshotType.FILESYSTEM_OVERVIEW,
    SnapshotType.PROCESS_LIST,
    SnapshotType.RESOURCE_USAGE,
    SnapshotType.SERVER_LOGS,
    SnapshotType.SERVER_CONFIG,
)
"""What ALL stands for."""


class SnapshotSources(NamedTuple):
    """Where the parts come from."""

    data: Path
    logs: Path
    config: Path
    supervisor_pid: int
    secrets: tuple[bytes, ...]
    upkeep: bytes
    """What became of old segments, in words."""


def collect(
    types: Iterable[SnapshotType],
    sources: SnapshotSources,
    clock: Callable[[], float] = time.monotonic,
) -> dict[str, bytes]:
    """The entries of the archive: name and text, in the order asked for, each once."""
    wanted = list(dict.fromkeys(types))
    # Official tools that name no type mean all of them.
    if not wanted or SnapshotType.ALL in wanted:
        wanted = list(EVERYTHING)
    deadline = clock() + COLLECT_TIME_MAX_S
    entries = {}
    for kind in wanted:
        if clock() >= deadline:
            text = b"left out: the other parts took %d s\n" % COLLECT_TIME_MAX_S
        else:
            try:
                text = PARTS[kind](sources, deadline)
            except (OSError, psutil.Error) as error:
                text = f"could not be collected: {error}\n".encode(errors="backslashreplace")
        entries[f"{kind.name.lower()}.txt"] = masked(text, sources.secrets)
    return entries


def masked(text: bytes, secrets: Iterable[bytes]) -> bytes:
    """The text without any of these."""
    for secret in secrets:
        if len(secret) >= SECRET_LENGTH_MIN:
            text = text.replace(secret, MASK)
    return text


def cut(text: bytes, size_max: int = PART_SIZE_MAX) -> bytes:
    """The beginning of a text that is too long, saying so."""
    if len(text) <= size_max:
        return text
    return text[:size_max] + b"\n... %d bytes left out\n" % (len(text) - size_max)


# The parts.


def filesystem_overview(
    sources: SnapshotSources, _deadline: float, listed_max: int = FILES_LISTED_MAX
) -> bytes:
    """Space, the data directory, what compression saves in it, the temporary one and /proc."""
    disk = psutil.disk_usage(str(sources.data))
    lines = [
        f"{sources.data}: {disk.free} of {disk.total} bytes free",
        "",
        *_section("compression", ratio_lines(list(_ratios(sources.data, listed_max)))),
        *_section(str(sources.data), _tree(sources.data, listed_max)),
        *_section(tempfile.gettempdir(), _directory(Path(tempfile.gettempdir()), listed_max)),
        *_section("/proc", _directory(Path("/proc"), listed_max)),
    ]
    return cut(_encoded(lines))


def process_list(
    sources: SnapshotSources, deadline: float, listed_max: int = TASKS_LISTED_MAX
) -> bytes:
    """All processes of the machine by name, and the kernel's details of our own."""
    parts = [run_command(LIST_PROCESSES, deadline, PART_SIZE_MAX)]
    for pid in broker_pids(sources.supervisor_pid):
        process = Path(f"/proc/{pid}")
        for name in PROCESS_FILES:
            parts.append(_encoded([f"\n{process / name}:"]) + _content(process / name))
        parts.append(_encoded(["", *_section(f"{process}/task", _tasks(process, listed_max))]))
    return cut(b"".join(parts))


def resource_usage(sources: SnapshotSources, deadline: float) -> bytes:
    """What was deleted and archived, load, memory, pressure, and one look at every thread."""
    parts = [b"old segments:\n" + sources.upkeep + b"\n"]
    parts += [
        _encoded([f"{name}:"]) + _content(Path(name)) + b"\n"
        for name in MACHINE_FILES
        if Path(name).exists()
    ]
    return cut(b"".join(parts) + run_command(LIST_THREADS, deadline, PART_SIZE_MAX))


def one_word(_sources: SnapshotSources, _deadline: float) -> bytes:
    """What official clients look for when they test snapshots."""
    return b"test\n"


def server_logs(sources: SnapshotSources, _deadline: float, size_max: int = LOGS_SIZE_MAX) -> bytes:
    """The log files of all processes, oldest first; of too many the newest."""
    room = size_max
    tails: list[bytes] = []
    left_out = 0
    for path in reversed(log_files(sources.logs)):
        try:
            with path.open("rb") as file:
                size = os.fstat(file.fileno()).st_size
                file.seek(max(0, size - room))
                tail = file.read(room)
        except FileNotFoundError:
            # Rotated out of the way while we looked.
            continue
        left_out += size - len(tail)
        room -= len(tail)
        tails.append(tail)
    logs = b"".join(reversed(tails))
    if left_out:
        # The first line is cut somewhere.
        logs = b"... %d bytes of older lines left out\n" % left_out + logs.partition(b"\n")[2]
    return logs or b"there are no log files\n"


def server_config(sources: SnapshotSources, _deadline: float) -> bytes:
    """The effective configuration, as it was written at start: secrets show as stars there."""
    return cut(sources.config.read_bytes())


PARTS: Final[Mapping[SnapshotType, Callable[[SnapshotSources, float], bytes]]] = {
    SnapshotType.FILESYSTEM_OVERVIEW: filesystem_overview,
    SnapshotType.PROCESS_LIST: process_list,
    SnapshotType.RESOURCE_USAGE: resource_usage,
    SnapshotType.TEST: one_word,
    SnapshotType.SERVER_LOGS: server_logs,
    SnapshotType.SERVER_CONFIG: server_config,
}


# Listings.


def _section(title: str, lines: Iterable[str]) -> Iterator[str]:
    yield f"{title}:"
    yield from lines
    yield ""


def _directory(path: Path, listed_max: int) -> Iterator[str]:
    """The names in one directory."""
    try:
        with os.scandir(path) as entries:
            for number, entry in enumerate(entries):
                if number == listed_max:
                    yield "... and more"
                    return
                yield _described(entry)
    except OSError as error:
        yield f"cannot be listed: {error}"


def _ratios(data: Path, listed_max: int) -> Iterator[TopicRatio]:
    """What is compressed; a broker may have more topics than a report should have."""
    found = (one for one in topic_ratios(layout_of(data), Files()) if one.compressed.segments)
    yield from islice(found, listed_max)


def _tree(root: Path, listed_max: int) -> Iterator[str]:
    """All files below a directory."""
    left = listed_max
    for directory, _, names in os.walk(root):
        for name in sorted(names):
            if name.startswith(ROOT_PASSWORD_FILE):
                continue
            if left == 0:
                yield "... and more"
                return
            left -= 1
            path = Path(directory, name)
            try:
                facts = path.lstat()
            except OSError:
                # Gone since it was listed.
                continue
            yield f"{filemode(facts.st_mode)} {facts.st_size:>14} {path.relative_to(root)}"


def _described(entry: os.DirEntry[str]) -> str:
    try:
        facts = entry.stat(follow_symlinks=False)
    except OSError as error:
        return f"? {entry.name}: {error.strerror}"
    return f"{filemode(facts.st_mode)} {facts.st_uid:>6} {facts.st_size:>14} {entry.name}"


def _tasks(process: Path, listed_max: int) -> Iterator[str]:
    """Name, state and CPU time of the threads of a process."""
    try:
        tasks = sorted(os.listdir(process / "task"), key=int)
    except OSError as error:
        yield f"cannot be listed: {error}"
        return
    for number, task in enumerate(tasks):
        if number == listed_max:
            yield "... and more"
            return
        try:
            status = (process / "task" / task / "stat").read_text(errors="replace")
        except OSError:
            continue
        # The name stands in parentheses and may itself hold some.
        name = status[status.index("(") + 1 : status.rindex(")")]
        fields = status[status.rindex(")") + 2 :].split()
        yield f"{task:>8} {name:<16} {fields[0]} user {fields[11]} system {fields[12]} ticks"


def _content(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(PART_SIZE_MAX)
    except OSError as error:
        return f"cannot be read: {error}\n".encode()


def _encoded(lines: Iterable[str]) -> bytes:
    """Names of files may be no text at all."""
    return ("\n".join(lines) + "\n").encode(errors="surrogateescape")
