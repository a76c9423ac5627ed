"""What a repair does to a file: durable when it returns, with the text for the report."""

import os

from borzoi.storage.files import Files


def removed(path: str, files: Files) -> str:
    """Removes a file, durably; returns the text for the report."""
    files.unlink(path)
    files.fsync_directory(os.path.dirname(path))
    return "removed"


def cut_file(path: str, size: int, files: Files) -> str:
    """Shorten a file, durably."""
    fd = files.open(path, os.O_RDWR)
    try:
        files.ftruncate(fd, size)
        files.fsync(fd)
    finally:
        files.close(fd)
    return f"cut to {size} bytes"
