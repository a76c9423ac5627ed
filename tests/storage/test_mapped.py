"""Windows: past the end, alive as long as a slice, bounded in number."""

import gc
import os
from pathlib import Path

import pytest

from borzoi.storage.files import FileIdentity
from borzoi.storage.mapped import MappedWindow, WindowCache

SIZE = 64 * 1024


def maps_of(path: Path) -> int:
    return Path("/proc/self/maps").read_text().count(str(path))


def open_new(path: Path, data: bytes) -> int:
    path.write_bytes(data)
    return os.open(path, os.O_RDONLY)


def test_a_window_shows_what_is_written_later(tmp_path: Path) -> None:
    path = tmp_path / "grows"
    fd = open_new(path, b"begin")
    window = MappedWindow(fd, 0, SIZE)
    os.close(fd)
    with path.open("ab") as file:
        file.write(b" and more" * 1000)
    assert bytes(window.below(14)) == b"begin and more"
    assert bytes(window.below(9005)[9000:]) == path.read_bytes()[9000:9005]
    assert window.below(14).readonly


def test_a_window_is_unmapped_with_its_last_slice(tmp_path: Path) -> None:
    path = tmp_path / "mapped"
    fd = open_new(path, bytes(1000))
    window = MappedWindow(fd, 0, SIZE)
    os.close(fd)
    slice_of_slice = window.below(100)[10:][5:10]
    assert maps_of(path) == 1
    del window
    gc.collect()
    assert maps_of(path) == 1
    assert bytes(slice_of_slice) == bytes(5)
    del slice_of_slice
    gc.collect()
    assert maps_of(path) == 0


def test_later_windows_begin_where_they_should(tmp_path: Path) -> None:
    data = os.urandom(SIZE * 2 + 10)
    fd = open_new(tmp_path / "file", data)
    assert bytes(MappedWindow(fd, SIZE, SIZE).below(SIZE + 20)) == data[SIZE : SIZE + 20]
    assert bytes(MappedWindow(fd, SIZE * 2, SIZE).below(SIZE * 2 + 10)) == data[SIZE * 2 :]
    os.close(fd)


def test_what_cannot_be_mapped_is_an_oserror(tmp_path: Path) -> None:
    fd = os.open(tmp_path, os.O_RDONLY)
    with pytest.raises(OSError, match="mmap"):
        MappedWindow(fd, 0, SIZE)
    os.close(fd)


def test_the_cache_keeps_the_windows_used_last(tmp_path: Path) -> None:
    path = tmp_path / "file"
    fd = open_new(path, bytes(SIZE * 4))
    cache = WindowCache(2, SIZE)
    identity = FileIdentity(1, 1)
    for number in (0, 1):
        cache.map(identity, number, fd)
    assert cache.get(identity, 0) is not None
    cache.map(identity, 2, fd)
    assert len(cache) == 2
    assert cache.get(identity, 1) is None
    assert cache.get(identity, 0) is not None
    assert cache.get(FileIdentity(1, 2), 0) is None
    gc.collect()
    assert maps_of(path) == 2
    held = cache.get(identity, 0)
    cache.clear()
    gc.collect()
    assert maps_of(path) == 1
    assert held is not None
    os.close(fd)
