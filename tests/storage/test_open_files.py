"""Open files: bounded, never closed in use, never mistaken for another user's."""

import errno
import os
from contextlib import ExitStack
from pathlib import Path

import pytest

from borzoi.storage.files import FILE_MODE
from borzoi.storage.files import Path as AnyPath
from borzoi.storage.open_files import OpenFiles
from tests.storage.faults import FailingFiles


def test_the_last_used_stay_open(tmp_path: Path) -> None:
    files = FailingFiles()
    open_files = OpenFiles(files, 2)
    scope = open_files.scope()
    for name in "abc":
        with scope.use(str(tmp_path / name), create=True):
            pass
    assert (len(open_files), files.open_count) == (2, 2)
    files.calls.clear()
    with scope.use(str(tmp_path / "b")):
        pass
    assert files.calls == []
    with scope.use(str(tmp_path / "a")):
        pass
    assert [Path(path).name for _, path in files.calls] == ["a"]
    open_files.close()
    assert (len(open_files), files.open_count) == (0, 0)


def test_a_file_in_use_is_not_closed_under_its_user(tmp_path: Path) -> None:
    files = FailingFiles()
    open_files = OpenFiles(files, 1)
    scope = open_files.scope()
    first, second = str(tmp_path / "a"), str(tmp_path / "b")
    with scope.use(first, create=True) as fd:
        with scope.use(second, create=True):
            os.write(fd, b"still open")
            assert files.open_count == 2
        assert files.open_count == 1
        scope.forget(first)
        os.write(fd, b", and now")
        with scope.use(first) as again:
            assert again != fd
    assert files.open_count == 1
    open_files.forget_below(str(tmp_path))
    assert files.open_count == 0
    scope.forget(first)


def test_a_late_user_of_the_old_file_does_not_reach_the_new_one(tmp_path: Path) -> None:
    """A directory goes away and comes back while a thread still has the old one to sync."""
    files = FailingFiles()
    open_files = OpenFiles(files, 8)
    (tmp_path / "partition").mkdir()
    path = str(tmp_path / "partition" / "log")
    old = open_files.scope()
    with old.use(path, create=True) as fd:
        os.write(fd, b"old")
        old.close(str(tmp_path / "partition"))
        (tmp_path / "partition").rename(tmp_path / "trash")
        (tmp_path / "partition").mkdir()
        with open_files.scope().use(path, create=True) as new:
            os.write(new, b"new")
        os.write(fd, b", still old")
    with pytest.raises(OSError, match="gone"), old.use(path):
        pass
    assert (tmp_path / "trash" / "log").read_bytes() == b"old, still old"
    assert Path(path).read_bytes() == b"new"
    open_files.close()
    assert files.open_count == 0


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE])
def test_out_of_descriptors_gives_idle_ones_back(tmp_path: Path, number: int) -> None:
    class FewFiles(FailingFiles):
        def open(self, path: AnyPath, flags: int, mode: int = FILE_MODE) -> int:
            if self.open_count >= 4:
                raise OSError(number, "too many")
            return super().open(path, flags, mode)

    files = FewFiles()
    open_files = OpenFiles(files, 100)
    scope = open_files.scope()
    for name in range(20):
        with scope.use(str(tmp_path / str(name)), create=True):
            assert files.open_count <= 4
    open_files.close()
    with ExitStack() as all_in_use:
        for name in range(4):
            all_in_use.enter_context(scope.use(str(tmp_path / str(name))))
        with pytest.raises(OSError, match="too many"), scope.use(str(tmp_path / "4")):
            pass
