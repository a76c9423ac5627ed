"""One data directory, one broker: the lock that keeps a second one out.

An exclusive flock on the directory itself, so no file has to be cleaned up. The supervisor takes it
before it reads or deletes anything and passes the descriptor to its workers, which never look at
it. The lock lasts until the last process that could still write is gone, however the broker ended.
"""

import fcntl
import os
import shutil
import time
from pathlib import Path
from typing import Final

from borzoi.shards.settings.errors import ConfigError

# Workers of a broker that was killed need a moment to die.
LOCK_TIMEOUT_S: Final = 2.0
RETRY_S: Final = 0.02


def lock_data_directory(data: Path, timeout_s: float = LOCK_TIMEOUT_S) -> int:
    """Make the directory if there is none, and lock it; the descriptor that holds the lock.

    Its parent is never made: where a disk is not mounted, the data would go to another one.
    """
    try:
        data.mkdir(exist_ok=True)
    except FileNotFoundError:
        raise ConfigError(
            f"system.path is {data}: its parent {data.absolute().parent} does not exist; mount the"
            " disk or make that directory, or name another place in IGGY_SYSTEM_PATH"
        ) from None
    except FileExistsError:
        raise ConfigError(f"system.path is {data}: a file, and has to be a directory") from None
    fd = os.open(data, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                os.close(fd)
                raise ConfigError(
                    f"system.path is {data}: another broker uses it; stop that one, or name"
                    " another directory in IGGY_SYSTEM_PATH"
                ) from None
            time.sleep(RETRY_S)
        else:
            return fd


def empty_data_directory(data: Path) -> None:
    """Delete everything in it. The directory stays: it carries the lock."""
    for entry in list(os.scandir(data)):
        if entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry.path)
        else:
            os.unlink(entry.path)
