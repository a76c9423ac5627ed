"""File systems of a test's own: small ones, and one whose power can be cut.

Everything here needs root and mounts; where that is not to be had, Unavailable says why, and a
test skips with that. Whatever is mounted is unmounted at the end, also after a failure. Once a
first mount has worked, whatever fails is a failure.
"""

import fcntl
import os
import shutil
import struct
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

DISK_SIZE: Final = "256M"
COMMAND_TIMEOUT_S: Final = 120.0
UNMOUNT_TIMEOUT_S: Final = 30.0

FS_IOC_SHUTDOWN: Final = 0x8004587D  # _IOR('X', 125, __u32), for those who may administer
WITHOUT_FLUSHING_THE_JOURNAL: Final = struct.pack("I", 2)


class Unavailable(Exception):
    """The machine cannot do it; the text says what is missing."""


class CommandFailed(Exception):
    """A program ended with an error; the text has its words."""


def run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=COMMAND_TIMEOUT_S)
    if done.returncode:
        raise CommandFailed(f"{' '.join(command)}: {done.stderr.strip() or done.returncode}")


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
    """Whatever happens: one that stays busy leaves the tree at once, and that is an error."""
    deadline = time.monotonic() + UNMOUNT_TIMEOUT_S
    while True:
        try:
            return run("umount", str(place))
        except CommandFailed:
            if time.monotonic() > deadline:
                run("umount", "--lazy", str(place))
                raise
            time.sleep(0.05)


@contextmanager
def small_disk(place: Path, size_mib: int) -> Iterator[Path]:
    """A file system in memory with so much room."""
    need("mount")
    with ExitStack() as stack:
        mounting = mounted(place, "-t", "tmpfs", "-o", f"size={size_mib}m", "tmpfs")
        try:
            stack.enter_context(mounting)
        except CommandFailed as error:
            raise Unavailable(str(error)) from error
        yield place


class PowerCutDisk:
    """An ext4 that can be cut off from its disk at any moment, as a power cut would.

    The file system lies in a file. The cut is the kernel's own order to shut a file system down
    without flushing: from then on nothing reaches the file, and what the kernel had only in memory
    is gone when it is mounted again, which replays the journal as after a power cut. Does not show:
    drives that lie about flushes, and sectors torn inside a write.
    """

    def __init__(self, directory: Path) -> None:
        self._image = directory / "disk.img"
        self._place = directory / "disk"

    def __enter__(self) -> "PowerCutDisk":
        """Tries it once: a machine where it is not possible must not look like a failure."""
        need("mount", "mkfs.ext4", "truncate")
        try:
            with self.running():
                self.cut_power()
            with self.after_the_cut():
                pass
        except (CommandFailed, OSError) as error:
            raise Unavailable(str(error)) from error
        return self

    def __exit__(self, *_exception: object) -> None:
        self._image.unlink()

    @contextmanager
    def running(self) -> Iterator[Path]:
        """An empty disk, mounted."""
        self._image.unlink(missing_ok=True)
        run("truncate", "-s", DISK_SIZE, str(self._image))
        run("mkfs.ext4", "-q", "-F", str(self._image))
        with self._mounted():
            yield self._place

    def cut_power(self) -> None:
        """From now on nothing reaches the disk."""
        place = os.open(self._place, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.ioctl(place, FS_IOC_SHUTDOWN, WITHOUT_FLUSHING_THE_JOURNAL)
        finally:
            os.close(place)

    @contextmanager
    def after_the_cut(self) -> Iterator[Path]:
        """What is on the disk, mounted as the next boot would."""
        with self._mounted():
            yield self._place

    @contextmanager
    def _mounted(self) -> Iterator[None]:
        with mounted(self._place, "-o", "loop", str(self._image)):
            yield
