"""What a disk may hold after a crash, for every moment of a recorded run.

A name is durable when its directory was synced after it appeared, bytes are durable when their
file was synced after they were written. Everything else may be there or not after a power cut;
after the death of the process alone, all of it is there. Names belong to directories, not to
paths: one that was renamed takes its content along, durable or not, and may be found again in
its old place.
"""

import os
import random
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from borzoi.storage.files import FILE_MODE, Buffer, Files
from borzoi.storage.files import Path as AnyPath


class Call(NamedTuple):
    name: str
    path: str
    other: str = ""
    position: int = 0
    data: bytes = b""


class RecordingFiles(Files):
    """Does everything for real and keeps the calls that change something."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self._paths: dict[int, str] = {}

    def open(self, path: AnyPath, flags: int, mode: int = FILE_MODE) -> int:
        if flags & os.O_CREAT and not os.path.lexists(path):
            self.calls.append(Call("create", os.fspath(path)))
        if flags & os.O_TRUNC:
            self.calls.append(Call("truncate", os.fspath(path)))
        fd = super().open(path, flags, mode)
        self._paths[fd] = os.fspath(path)
        return fd

    def pwrite(self, fd: int, data: Buffer, position: int) -> int:
        self.calls.append(Call("write", self._paths[fd], position=position, data=bytes(data)))
        return super().pwrite(fd, data, position)

    def pwritev(self, fd: int, buffers: Sequence[Buffer], position: int) -> int:
        data = b"".join(buffers)
        self.calls.append(Call("write", self._paths[fd], position=position, data=data))
        return super().pwritev(fd, buffers, position)

    def ftruncate(self, fd: int, size: int) -> None:
        self.calls.append(Call("truncate", self._paths[fd], position=size))
        super().ftruncate(fd, size)

    def fdatasync(self, fd: int) -> None:
        self.calls.append(Call("sync", self._paths[fd]))

    def fsync(self, fd: int) -> None:
        self.calls.append(Call("sync", self._paths[fd]))

    def fsync_directory(self, path: AnyPath) -> None:
        self.calls.append(Call("sync names", os.fspath(path)))

    def mkdir(self, path: AnyPath) -> None:
        self.calls.append(Call("mkdir", os.fspath(path)))
        super().mkdir(path)

    def rename(self, old: AnyPath, new: AnyPath) -> None:
        super().rename(old, new)
        # What is open goes on under its new name.
        for fd, path in self._paths.items():
            if path == os.fspath(old):
                self._paths[fd] = os.fspath(new)
        self.calls.append(Call("rename", os.fspath(old), os.fspath(new)))

    def unlink(self, path: AnyPath) -> None:
        super().unlink(path)
        self.calls.append(Call("unlink", os.fspath(path)))


@dataclass(eq=False)
class File:
    data: bytes = b""
    durable: bytes = b""


@dataclass(eq=False)
class Directory:
    names: "Names" = field(default_factory=dict)
    durable: "Names" = field(default_factory=dict)


Names = dict[str, File | Directory]
Survival = Callable[[File], bytes]
NameSurvival = Callable[[Directory], Names]


class State(NamedTuple):
    """One way in which a moment may be found again."""

    name: str
    names: NameSurvival
    data: Survival


@dataclass
class Disk:
    """The calls so far, seen from the disk."""

    root: str
    top: Directory = field(default_factory=Directory)

    def apply(self, call: Call) -> None:
        if call.name == "sync names":
            directory = self._directory(call.path)
            directory.durable = dict(directory.names)
            return
        names, name = self._place(call.path)
        if call.name in ("create", "mkdir"):
            names[name] = Directory() if call.name == "mkdir" else File()
        elif call.name == "unlink":
            del names[name]
        elif call.name == "rename":
            new_names, new_name = self._place(call.other)
            new_names[new_name] = names.pop(name)
        else:
            file = names[name]
            assert isinstance(file, File)
            _change(file, call)

    def _place(self, path: str) -> tuple[Names, str]:
        return self._directory(os.path.dirname(path)).names, os.path.basename(path)

    def _directory(self, path: str) -> Directory:
        found = self.top
        for name in Path(path).relative_to(self.root).parts:
            below = found.names[name]
            assert isinstance(below, Directory)
            found = below
        return found

    def survivors(self, seed: int) -> Iterator[State]:
        """The ways in which this moment may be found again."""
        yield State("killed", current_names, lambda file: file.data)
        yield State("nothing unsynced", durable_names, lambda file: file.durable)
        yield State("bytes, no names", durable_names, lambda file: file.data)
        yield State("names, no bytes", current_names, lambda file: file.durable)
        yield State("torn bytes", current_names, torn)
        yield State("zeros for bytes", current_names, zeroed)
        for number, names in enumerate((current_names, all_names, None)):
            choice = random.Random(f"{seed} {number}")
            yield State(f"mixed {number}", names or mixed_names(choice), mixed_bytes(choice))

    def materialise(self, state: State, target: Path) -> None:
        _materialise(self.top, state, target)


class Crash(NamedTuple):
    """One state of the disk after one of the calls, laid out under `target`."""

    number: int
    state: str
    target: Path


def after_every_crash(
    root: Path, calls: Sequence[Call], begin: int, look: Callable[[Crash], None]
) -> Counter[str]:
    """Look at everything that may be left after each call from `begin` on; how often by state.

    The states lie beside `root`, and each is gone when it was looked at.
    """
    disk = Disk(str(root))
    looked: Counter[str] = Counter()
    for number, call in enumerate(calls, 1):
        disk.apply(call)
        if number < begin:
            continue
        for state in disk.survivors(number):
            target = root.parent / f"{number}-{state.name}"
            disk.materialise(state, target)
            try:
                look(Crash(number, state.name, target))
            except Exception as error:
                error.add_note(f"crash after call {number} ({call}), {state.name}")
                raise
            shutil.rmtree(target)
            looked[state.name] += 1
    return looked


def _materialise(directory: Directory, state: State, target: Path) -> None:
    target.mkdir()
    for name, node in sorted(state.names(directory).items()):
        if isinstance(node, Directory):
            _materialise(node, state, target / name)
        else:
            (target / name).write_bytes(state.data(node))


def _change(file: File, call: Call) -> None:
    if call.name == "sync":
        file.durable = file.data
    elif call.name == "truncate":
        file.data = file.data[: call.position].ljust(call.position, b"\0")
    else:
        assert call.name == "write"
        start = file.data[: call.position].ljust(call.position, b"\0")
        file.data = start + call.data + file.data[call.position + len(call.data) :]


def current_names(directory: Directory) -> Names:
    return directory.names


def durable_names(directory: Directory) -> Names:
    return directory.durable


def all_names(directory: Directory) -> Names:
    """What was removed without a sync is still there, beside what is new."""
    return {**directory.durable, **directory.names}


def mixed_names(choice: random.Random) -> NameSurvival:
    """Each directory for itself: a rename may be found in both places, or in none."""
    return lambda directory: choice.choice([current_names, durable_names, all_names])(directory)


def mixed_bytes(choice: random.Random) -> Survival:
    return lambda file: choice.choice([file.data, file.durable, torn(file), zeroed(file)])


def torn(file: File) -> bytes:
    """Half of what was added since the last sync."""
    return file.data[: (len(file.durable) + len(file.data) + 1) // 2]


def zeroed(file: File) -> bytes:
    """The file has its new length, but the new bytes never arrived."""
    return file.durable[: len(file.data)].ljust(len(file.data), b"\0")
