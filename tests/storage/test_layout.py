"""Paths, info.json and trash."""

import errno
import os
from pathlib import Path

import pytest

from borzoi.storage.files import Files
from borzoi.storage.info import FORMAT, Info, UnknownDataFormat, read_info, write_info
from borzoi.storage.layout import (
    LEVELS_ABOVE_PARTITION,
    DataLayout,
    index_path,
    is_temporary,
    log_path,
    segment_first_offsets,
    segment_name,
)
from borzoi.storage.trash import empty_trash, retire_directory
from tests.storage.faults import FailingFiles


def test_paths(tmp_path: Path) -> None:
    layout = DataLayout(tmp_path)
    assert layout.partition(1, 2, 3) == f"{tmp_path}/streams/1/topics/2/partitions/3"
    assert layout.state_log == f"{tmp_path}/state.messages"
    assert layout.info_file == f"{tmp_path}/info.json"
    assert log_path("d", 100) == "d/00000000000000000100.log"
    assert index_path("d", 2**64 - 1) == "d/18446744073709551615.index"
    other = DataLayout(tmp_path, "s", "t", "p")
    assert other.partition(1, 2, 3) == f"{tmp_path}/s/1/t/2/p/3"
    above = Path(layout.partition(1, 2, 3))
    for _ in range(LEVELS_ABOVE_PARTITION):
        above = above.parent
    assert above == tmp_path


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "/etc", "a\0b"])
def test_a_configured_name_is_one_directory(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="directory name"):
        DataLayout(tmp_path, topic_dir=name)


def test_the_skeleton_is_private(tmp_path: Path) -> None:
    layout = DataLayout(tmp_path / "above" / "data")
    old = os.umask(0)
    try:
        layout.create_skeleton(Files())
    finally:
        os.umask(old)
    for path in (layout.root, layout.streams, layout.runtime, layout.trash, layout.backup):
        assert os.stat(path).st_mode & 0o777 == 0o700
    layout.create_skeleton(Files())


def test_partitions_are_found_by_their_numbers(tmp_path: Path) -> None:
    layout = DataLayout(tmp_path)
    assert list(layout.partition_directories(Files())) == []
    ids = [(0, 0, 0), (0, 0, 10), (0, 0, 9), (2, 1, 0)]
    for each in ids:
        os.makedirs(layout.partition(*each))
    os.makedirs(f"{tmp_path}/streams/x/topics/0/partitions/0")
    os.makedirs(f"{tmp_path}/streams/00/topics/0/partitions/0")
    os.makedirs(f"{tmp_path}/streams/5")
    found = list(layout.partition_directories(Files()))
    assert [each[:3] for each in found] == sorted(ids)
    assert found[0].path == layout.partition(0, 0, 0)
    assert [number for number, _ in layout.stream_directories(Files())] == [0, 2, 5]


def test_files_with_numbers_for_names_are_no_directories(tmp_path: Path) -> None:
    layout = DataLayout(tmp_path)
    os.makedirs(layout.partition(1, 2, 3))
    for path in (layout.stream(7), layout.topic(1, 8), layout.partition(1, 2, 9)):
        Path(path).write_bytes(b"not ours")
    os.makedirs(layout.stream(4))
    Path(f"{layout.stream(4)}/topics").write_bytes(b"not ours")
    found = list(layout.partition_directories(Files()))
    assert [each[:3] for each in found] == [(1, 2, 3)]


def test_temporaries_of_ours_are_known_by_their_names() -> None:
    segment = segment_name(7)
    ours = [
        "birth",
        "recovery-point",
        *(f"{segment}.{kind}" for kind in ("index", "log", "log.lz4")),
    ]
    strangers = ["notes", "7.log", segment, f"{segment}.log.brotli", f"{segment}.txt", ""]
    assert all(is_temporary(f"{name}.tmp") for name in ours)
    assert not any(is_temporary(name) for name in ours)
    assert not any(is_temporary(f"{name}.tmp") for name in strangers)


def test_segment_names() -> None:
    names = [
        "00000000000000000007.log",
        "00000000000000000000.log",
        "0.log",
        "000000000000000000000.log",
        "0000000000000000000x.log",
        "00000000000000000003.index",
        "birth",
    ]
    assert segment_first_offsets(names, ".log") == [0, 7]
    assert segment_first_offsets(names, ".index") == [3]


def test_info_round_trip(tmp_path: Path) -> None:
    layout = DataLayout(tmp_path)
    assert read_info(layout, Files()) is None
    write_info(layout, Files(), "1.2.3", None)
    first = read_info(layout, Files())
    assert first == Info("1.2.3", FORMAT, "1.2.3")
    write_info(layout, Files(), "2.0", first)
    assert read_info(layout, Files()) == Info("2.0", FORMAT, "1.2.3")


def test_info_of_older_formats(tmp_path: Path) -> None:
    layout = DataLayout(tmp_path)
    Path(layout.info_file).write_text('{"version": "0.1.0", "format": 1}')
    found = read_info(layout, Files())
    assert found == Info("0.1.0", 1, "")
    write_info(layout, Files(), "9", found)
    assert read_info(layout, Files()) == Info("9", FORMAT, "")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (f'{{"version": "9.0", "format": {FORMAT + 1}}}', "newer broker"),
        ('{"version": "9.0", "format": 0}', "format number"),
        ('{"version": "9.0", "format": "1"}', "format number"),
        ('{"version": "9.0", "format": true}', "format number"),
        ('{"version": "9.0"}', "understood"),
        ("[]", "understood"),
        ("{", "understood"),
        ("", "understood"),
        ("\xff", "understood"),
    ],
)
def test_an_unknown_format_is_refused(tmp_path: Path, text: str, says: str) -> None:
    layout = DataLayout(tmp_path)
    Path(layout.info_file).write_bytes(text.encode("latin-1"))
    with pytest.raises(UnknownDataFormat, match=says):
        read_info(layout, Files())


def test_a_failed_replacement_leaves_the_old_file(tmp_path: Path) -> None:
    layout = DataLayout(tmp_path)
    write_info(layout, Files(), "old", None)
    files = FailingFiles()
    write_info(layout, files, "old", None)
    assert [name for name, _ in files.calls] == [
        "open", "write", "fsync", "rename", "fsync_directory"
    ]  # fmt: skip
    for nth in range(4):
        files.fail_nth(nth, errno.ENOSPC)
        with pytest.raises(OSError, match="space"):
            write_info(layout, files, "new", None)
        files.repair()
        assert read_info(layout, files) == Info("old", FORMAT, "old")


def test_links_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic"):
        Files().open(tmp_path / "link", os.O_RDWR | os.O_CREAT)


def test_trash(tmp_path: Path) -> None:
    files = Files()
    trash = str(tmp_path / "trash")
    assert not retire_directory(str(tmp_path / "absent"), trash, "a", files)
    for _ in range(3):
        (tmp_path / "partition").mkdir()
        (tmp_path / "partition" / "file").write_bytes(b"x")
        assert retire_directory(str(tmp_path / "partition"), trash, "a", files)
        assert not (tmp_path / "partition").exists()
    assert sorted(os.listdir(trash)) == ["a", "a.1", "a.2"]
    assert empty_trash(trash, files) == 3
    assert os.listdir(trash) == []
    assert empty_trash(str(tmp_path / "nowhere"), files) == 0


def test_retiring_fails_loudly_when_it_cannot(tmp_path: Path) -> None:
    files = FailingFiles()
    (tmp_path / "partition").mkdir()
    files.fail("rename", errno.EIO)
    with pytest.raises(OSError, match="Input/output"):
        retire_directory(str(tmp_path / "partition"), str(tmp_path / "trash"), "a", files)
