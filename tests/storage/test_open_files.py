"""Open files: bounded, never closed in use, never mistaken for another user's."""

import errno
import os
from contextlib import ExitStack
from pathlib import Path

import pytest

from borzoi.storage.files import FILE_MODE
from borzoi.storage.files import Path as AnyPath
from borzoi.storage.open_files import ROOM_PART, OpenScope
from tests.endings import new_open_files
from tests.storage.faults import FailingFiles


class FewFiles(FailingFiles):
    """As when other things of the process have taken nearly all descriptors."""

    def __init__(self, open_max: int, error: int) -> None:
        super().__init__()
        self._open_max = open_max
        self._error = error

    def open(self, path: AnyPath, flags: int, mode: int = FILE_MODE) -> int:
        if self.open_count >= self._open_max:
            raise OSError(self._error, "too many")
        return super().open(path, flags, mode)


def test_the_last_used_stay_open(tmp_path: Path) -> None:
    files = FailingFiles()
    open_files = new_open_files(files, 2)
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
    open_files = new_open_files(files, 1)
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
    open_files = new_open_files(files, 8)
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
    files = FewFiles(4, number)
    open_files = new_open_files(files, 100)
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


def make(scope: OpenScope, *paths: str) -> None:
    for path in paths:
        with scope.use(path, create=True):
            pass


def test_kept_files_stay_open_until_too_many_are_kept(tmp_path: Path) -> None:
    files = FailingFiles()
    open_files = new_open_files(files, 8)
    scope = open_files.scope()
    pairs = [(str(tmp_path / f"{name}.log"), str(tmp_path / f"{name}.index")) for name in "abc"]
    for pair in pairs:
        make(scope, *pair)
    first, second = scope.keep(pairs[0]), scope.keep(pairs[1])
    make(scope, *(str(tmp_path / str(number)) for number in range(20)))
    assert first.is_open
    assert second.is_open
    for fd in first.fds + second.fds:
        os.write(fd, b"open")
    # Half of the limit: two pairs. The oldest has to go.
    third = scope.keep(pairs[2])
    assert [one.is_open for one in (first, second, third)] == [False, True, True]
    make(scope, *(str(tmp_path / str(number)) for number in range(20)))
    assert len(open_files) <= 8
    third.let_go()
    third.let_go()
    open_files.close()
    assert not second.is_open
    assert (len(open_files), files.open_count) == (0, 0)


def test_a_limit_below_one_pair_keeps_one_pair(tmp_path: Path) -> None:
    open_files = new_open_files(FailingFiles(), 1)
    scope = open_files.scope()
    paths = str(tmp_path / "log"), str(tmp_path / "index")
    make(scope, *paths)
    first = scope.keep(paths)
    second = scope.keep(paths)
    assert (first.is_open, second.is_open, len(open_files)) == (False, True, 2)
    open_files.close()
    assert len(open_files) == 0


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE])
def test_out_of_descriptors_ends_all_keeping(tmp_path: Path, number: int) -> None:
    files = FewFiles(4, number)
    open_files = new_open_files(files, 100)
    scope = open_files.scope()
    names = [str(tmp_path / str(name)) for name in range(6)]
    make(scope, *names)
    kept = [scope.keep(names[0:2]), scope.keep(names[2:4])]
    with scope.use(names[4]), scope.use(names[5]):
        assert not any(one.is_open for one in kept)
    again = scope.keep(names[:4])
    with pytest.raises(OSError, match="too many"):
        scope.keep(names)
    # What the failed attempt had opened is not in use for ever.
    assert not again.is_open
    open_files.close()
    assert files.open_count == 0
    scope.close(str(tmp_path))
    with pytest.raises(OSError, match="gone"):
        scope.keep(names[:2])


def test_above_the_limit_some_are_closed_at_once(tmp_path: Path) -> None:
    """Or else each further file would be paid for with a look at all of them."""
    files = FailingFiles()
    limit = 4 * ROOM_PART
    open_files = new_open_files(files, limit)
    scope = open_files.scope()
    for number in range(limit + 1):
        with scope.use(str(tmp_path / str(number)), create=True):
            pass
    assert len(open_files) == files.open_count == limit - limit // ROOM_PART
    files.calls.clear()
    with scope.use(str(tmp_path / str(limit))):
        pass
    assert files.calls == []
    open_files.close()
