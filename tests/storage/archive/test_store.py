"""Both places an archive can lie in: the same promises, a directory and a bucket."""

import errno
import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from borzoi.storage.archive.copying import always, check_object, download, put_bytes, upload
from borzoi.storage.archive.s3 import BucketStore, Credentials
from borzoi.storage.archive.store import (
    PIECE_SIZE,
    ArchiveStore,
    DirectoryStore,
    ObjectMissing,
    StoreFailed,
)
from borzoi.storage.files import Files
from tests.s3_server import BUCKET, KEY_ID, KEY_SECRET, S3Server, s3_server
from tests.storage.faults import FailingFiles

LARGE = PIECE_SIZE + 12_345


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with s3_server() as server:
        yield server


def bucket_store(server: S3Server, prefix: str, bucket: str = BUCKET) -> BucketStore:
    return BucketStore(bucket, prefix, server.url, "us-east-1", Credentials(KEY_ID, KEY_SECRET))


@pytest.fixture(params=["directory", "bucket"])
def store(
    request: pytest.FixtureRequest, tmp_path: Path, server: S3Server
) -> Iterator[ArchiveStore]:
    if request.param == "directory":
        yield DirectoryStore(str(tmp_path / "archive"), Files())
    else:
        yield bucket_store(server, f"tests/{tmp_path.name}")


def keys(store: ArchiveStore, prefix: str = "") -> list[str]:
    return sorted(one.key for one in store.list(prefix))


def test_objects_come_back_as_they_went(store: ArchiveStore) -> None:
    assert keys(store) == []
    put_bytes(store, "a/1/x", b"first")
    put_bytes(store, "a/10/x", b"other")
    put_bytes(store, "a/1/x", b"second")
    assert b"".join(store.read("a/1/x")) == b"second"
    assert keys(store) == ["a/1/x", "a/10/x"]
    # A prefix is a directory: 1 is not the beginning of 10.
    assert [(one.key, one.size) for one in store.list("a/1")] == [("a/1/x", 6)]
    store.delete("a/1/x")
    store.delete("a/1/x")
    assert keys(store) == ["a/10/x"]
    with pytest.raises(ObjectMissing):
        store.read("a/1/x")


@pytest.mark.slow
def test_a_large_file_goes_in_pieces_and_comes_back(store: ArchiveStore, tmp_path: Path) -> None:
    path = tmp_path / "large"
    path.write_bytes(os.urandom(LARGE))
    files = Files()
    fd = files.open(path, os.O_RDONLY)
    try:
        record = upload(store, "large", files, fd, LARGE, always)
    finally:
        files.close(fd)
    check_object(store, "large", record)
    download(store, "large", record, str(tmp_path / "back"), files)
    assert (tmp_path / "back").read_bytes() == path.read_bytes()
    assert (tmp_path / "back").stat().st_mode & 0o777 == 0o600


def test_an_upload_that_is_cut_off_leaves_no_object(store: ArchiveStore) -> None:
    def pieces() -> Iterator[bytes]:
        yield bytes(PIECE_SIZE)
        raise OSError(errno.EIO, "our own disk")

    with pytest.raises(OSError, match="our own disk"):
        store.put("half", pieces(), LARGE)
    assert keys(store) == []


def test_a_directory_that_refuses_keeps_the_old_object(tmp_path: Path) -> None:
    """Every call fails once: there is the old content or the new, and the outcome says which."""
    files = FailingFiles()
    store = DirectoryStore(str(tmp_path / "archive"), files)
    put_bytes(store, "a/b/key", b"old")
    for number in range(20):
        files.fail_nth(number, errno.ENOSPC)
        try:
            store.put("a/b/key", [b"new"], 3)
        except StoreFailed:
            assert b"".join(store.read("a/b/key")) in (b"old", b"new")
            assert keys(store) == ["a/b/key"]
        else:
            break
    assert 3 < number < 10
    assert b"".join(store.read("a/b/key")) == b"new"


def test_what_is_removed_during_a_listing_is_not_listed(tmp_path: Path) -> None:
    store = DirectoryStore(str(tmp_path / "archive"), Files())
    for key in ("state/1", "state/2"):
        put_bytes(store, key, b"x")
    listing = store.list("state")
    (other,) = {"state/1", "state/2"} - {next(listing).key}
    store.delete(other)
    assert list(listing) == []


@pytest.mark.parametrize("key", ["../x", "/x", "a//b", "a/../b", ""])
def test_no_key_leads_out_of_the_directory(tmp_path: Path, key: str) -> None:
    store = DirectoryStore(str(tmp_path / "archive"), Files())
    for use in (lambda: store.put(key, [b"x"], 1), lambda: store.read(key)):
        with pytest.raises(StoreFailed):
            use()


@pytest.mark.slow
def test_a_bucket_that_is_not_there_or_does_not_answer(server: S3Server) -> None:
    missing = bucket_store(server, "p", "there-is-no-such")
    away = BucketStore(
        BUCKET, "p", "http://127.0.0.1:1", "us-east-1", Credentials(KEY_ID, KEY_SECRET)
    )
    for store in (missing, away):
        uses: list[Callable[[], object]] = [
            partial(store.put, "k", [b"x"], 1),
            partial(next, store.list(""), None),
        ]
        for use in uses:
            with pytest.raises(StoreFailed) as failed:
                use()
            assert KEY_SECRET not in str(failed.value)
    assert KEY_SECRET not in repr(Credentials(KEY_ID, KEY_SECRET))
