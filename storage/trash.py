"""The trash of the data directory: directories leave their place at once, their bytes go later.

Deleted segments come here too, file by file; the shard that moved them unlinks them.

An id can be given out again the moment its directory has left its place. Unlinking gigabytes takes
a while and is done by a thread. Whatever a crash leaves in the trash is removed by the next start.
A rename that the disk forgot is harmless: the birth in the directory says that it is old.
"""

import errno
import os
from typing import Final

from borzoi.storage.files import Files

NAME_IS_TAKEN: Final = (errno.ENOTEMPTY, errno.EEXIST)


def retire_directory(directory: str, trash_dir: str, name: str, files: Files) -> bool:
    """Move a directory out of the way with one rename; False when there is none.

    Not durable, and need not be. Files mapped by readers stay valid.
    """
    files.makedirs(trash_dir)
    target = os.path.join(trash_dir, name)
    number = 0
    while True:
        try:
            files.rename(directory, target)
        except FileNotFoundError:
            return False
        except OSError as error:
            if error.errno not in NAME_IS_TAKEN:
                raise
            number += 1
            target = os.path.join(trash_dir, f"{name}.{number}")
        else:
            return True


def empty_trash(trash_dir: str, files: Files) -> int:
    """Remove what was retired before this call; return how many. Slow: for a thread."""
    try:
        names = files.listdir(trash_dir)
    except FileNotFoundError:
        return 0
    for name in names:
        path = os.path.join(trash_dir, name)
        try:
            files.rmtree(path)
        except NotADirectoryError:
            # A deleted segment; the shard that put it here may be faster.
            files.unlink_if_there(path)
    return len(names)
