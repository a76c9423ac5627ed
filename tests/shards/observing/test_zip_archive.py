"""Archives as other programs read them."""

import io
import random
import shutil
import subprocess
import zipfile
from datetime import datetime
from pathlib import Path

import pytest

from borzoi.protocol.commands.system import SnapshotCompression
from borzoi.shards.observing.zip_archive import METHODS, zip_archive
from tests.shards.unzipping import unzipped

AT = datetime(2026, 11, 16, 5, 8, 33)
ENTRIES = {
    "empty.txt": b"",
    "short.txt": b"test\n",
    "long.txt": b"the same line again and again\n" * 10_000,
    "noise.txt": random.Random(1).randbytes(100_000),
}
ALL = pytest.mark.parametrize("compression", SnapshotCompression)


def test_every_compression_of_the_protocol_has_a_method() -> None:
    assert set(METHODS) == set(SnapshotCompression)


@ALL
def test_what_goes_in_comes_out(compression: SnapshotCompression) -> None:
    archive = zip_archive(ENTRIES, compression, AT)
    assert unzipped(archive) == ENTRIES
    assert list(unzipped(archive)) == list(ENTRIES)
    if compression is not SnapshotCompression.STORED:
        assert len(archive) < 200_000


@ALL
def test_names_times_and_rights(compression: SnapshotCompression) -> None:
    with zipfile.ZipFile(io.BytesIO(zip_archive(ENTRIES, compression, AT))) as opened:
        for entry in opened.infolist():
            assert entry.date_time == (2026, 11, 16, 5, 8, 32)
            assert entry.compress_type == METHODS[compression].number
            assert entry.external_attr >> 16 == 0o100600


@pytest.mark.parametrize("compression", [SnapshotCompression.STORED, SnapshotCompression.DEFLATED])
@pytest.mark.skipif(shutil.which("unzip") is None, reason="needs the program unzip")
def test_unzip_finds_no_fault(tmp_path: Path, compression: SnapshotCompression) -> None:
    path = tmp_path / "snapshot.zip"
    path.write_bytes(zip_archive(ENTRIES, compression, AT))
    checked = subprocess.run(["unzip", "-t", path], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout
    assert "No errors" in checked.stdout


def test_nothing_at_all() -> None:
    """The archive without entries that the specification shows."""
    empty = bytes.fromhex("504b0506000000000000000000000000000000000000")
    assert zip_archive({}, SnapshotCompression.DEFLATED, AT) == empty
