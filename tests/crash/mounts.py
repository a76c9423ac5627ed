"""File systems of a test's own: small ones, and one whose power can be cut.

Everything here needs root and mounts; where that is not to be had, Unavailable says why, and a
test skips with that. Whatever is mounted is unmounted at the end, also after a failure.
"""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

OUTER_SIZE: Final = "1500M"
DISK_SIZE: Final = "256M"
COMMAND_TIMEOUT_S: Final = 120.0


class Unavailable(Exception):
    """This machine cannot do it; the text says what is missing."""


def run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=COMMAND_TIMEOUT_S)
    if done.returncode:
        raise Unavailable(f"{' '.join(command)}: {done.stderr.strip() or done.returncode}")


def need(*programs: str) -> None:
    if os.geteuid() != 0:
        raise Unavailable("mounting needs root")
    for program in programs:
        if shutil.which(program) is None:
            raise Unavailable(f"{program} is not installed")


@contextmanager
def mounted(place: Path, *arguments: str) -> Iterator[Path]:
    """`mount ARGUMENTS place`, until the end."""
    place.mkdir(exist_ok=True)
    run("mount", *arguments, str(place))
    try:
        yield place
    finally:
        unmount(place)


def unmount(place: Path) -> None:
    """Whatever happens: a busy one leaves the tree at once and the kernel when it is free."""
    try:
        run("umount", str(place))
    except Unavailable:
        run("umount", "--lazy", str(place))


@contextmanager
def small_disk(place: Path, size_mib: int) -> Iterator[Path]:
    """A file system in memory with so much room."""
    need("mount")
    with mounted(place, "-t", "tmpfs", "-o", f"size={size_mib}m", "tmpfs"):
        yield place


class PowerCutDisk:
    """An ext4 whose picture can be taken at any moment, as a power cut would leave it.

    The file system lies in a file, and that file on an XFS that clones files in an instant. What
    the kernel has not written to the "disk" yet is not in the clone; mounting it replays the
    journal of the ext4, as after a power cut. Does not show: drives that lie about flushes, and
    sectors torn inside a write.
    """

    def __init__(self, directory: Path) -> None:
        self.inner = directory / "inner"
        self.cut = directory / "cut"
        self._directory = directory
        self._outer = directory / "outer"
        self._stack = ExitStack()

    def __enter__(self) -> "PowerCutDisk":
        need("mount", "mkfs.xfs", "mkfs.ext4", "cp")
        image = self._directory / "outer.img"
        run("truncate", "-s", OUTER_SIZE, str(image))
        run("mkfs.xfs", "-q", "-m", "reflink=1", str(image))
        with ExitStack() as stack:
            stack.enter_context(mounted(self._outer, "-o", "loop", str(image)))
            run("truncate", "-s", DISK_SIZE, str(self._file("blank")))
            run("mkfs.ext4", "-q", "-F", str(self._file("blank")))
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_exception: object) -> None:
        self._stack.close()

    @contextmanager
    def running(self) -> Iterator[Path]:
        """An empty disk, mounted."""
        self._clone("blank", "disk")
        with mounted(self.inner, "-o", "loop", str(self._file("disk"))):
            yield self.inner

    def take_picture(self) -> None:
        """What a power cut would leave at this moment."""
        self._clone("disk", "cut")

    @contextmanager
    def after_the_cut(self) -> Iterator[Path]:
        """The last picture, mounted as the next boot would."""
        with mounted(self.cut, "-o", "loop", str(self._file("cut"))):
            yield self.cut

    def _clone(self, old: str, new: str) -> None:
        self._file(new).unlink(missing_ok=True)
        run("cp", "--reflink=always", str(self._file(old)), str(self._file(new)))

    def _file(self, name: str) -> Path:
        return self._outer / f"{name}.img"
