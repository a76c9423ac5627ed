"""What a disk may hold after a crash, for every moment of a recorded run.

A name is durable when its directory was synced after it appeared, bytes are durable when their
file was synced after they were written. Everything else may be there or not after a power cut;
after the death of the process alone, all of it is there.
"""

import os
import random
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
        self.calls.append(Call("rename", os.fspath(old), os.fspath(new)))
        super().rename(old, new)

    def unlink(self, path: AnyPath) -> None:
        super().unlink(path)
        self.calls.append(Call("unlink", os.fspath(path)))


@dataclass
class Node:
    is_directory: bool = False
    data: bytes = b""
    durable: bytes = b""


Names = dict[str, Node]
Survival = Callable[[Node], bytes]


@dataclass
class Disk:
    """The calls so far, seen from the disk."""

    root: str
    names: Names = field(default_factory=dict)
    durable_names: Names = field(default_factory=dict)

    def apply(self, call: Call) -> None:
        if call.name in ("create", "mkdir"):
            self.names[call.path] = Node(call.name == "mkdir")
        elif call.name == "unlink":
            del self.names[call.path]
        elif call.name == "rename":
            self.names[call.other] = self.names.pop(call.path)
        elif call.name == "sync names":
            self._make_names_durable(call.path)
        else:
            self._change(self.names[call.path], call)

    def _change(self, node: Node, call: Call) -> None:
        if call.name == "sync":
            node.durable = node.data
        elif call.name == "truncate":
            node.data = node.data[: call.position].ljust(call.position, b"\0")
        else:
            assert call.name == "write"
            start = node.data[: call.position].ljust(call.position, b"\0")
            node.data = start + call.data + node.data[call.position + len(call.data) :]

    def _make_names_durable(self, directory: str) -> None:
        for names in (self.durable_names, self.names):
            for path in [path for path in names if os.path.dirname(path) == directory]:
                if path in self.names:
                    self.durable_names[path] = self.names[path]
                else:
                    del self.durable_names[path]

    def survivors(self, seed: int) -> Iterator[tuple[str, Names, Survival]]:
        """The ways in which this moment may be found again."""
        yield "killed", self.names, lambda node: node.data
        yield "nothing unsynced", self.durable_names, lambda node: node.durable
        yield "names, no bytes", self.names, lambda node: node.durable
        yield "torn bytes", self.names, torn
        yield "zeros for bytes", self.names, zeroed
        for number in range(2):
            choice = random.Random(f"{seed} {number}")
            yield (
                f"mixed {number}",
                {**self.durable_names, **self.names} if number else self.names,
                lambda node, choice=choice: choice.choice(  # type: ignore[misc]  # bound now
                    [node.data, node.durable, torn(node), zeroed(node)]
                ),
            )

    def materialise(self, names: Names, survival: Survival, target: Path) -> None:
        target.mkdir()
        for path in sorted(names):
            place = target / os.path.relpath(path, self.root)
            if not place.parent.exists():
                continue  # the directory it was in did not survive
            if names[path].is_directory:
                place.mkdir()
            else:
                place.write_bytes(survival(names[path]))


def torn(node: Node) -> bytes:
    """Half of what was added since the last sync."""
    return node.data[: (len(node.durable) + len(node.data) + 1) // 2]


def zeroed(node: Node) -> bytes:
    """The file has its new length, but the new bytes never arrived."""
    return node.durable[: len(node.data)].ljust(len(node.data), b"\0")
