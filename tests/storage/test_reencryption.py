"""A key is exchanged: what was sealed is encrypted once more, and reads as before all the time."""

import errno
import os
from pathlib import Path

import pytest

from borzoi.storage.codecs import Codec
from borzoi.storage.encrypted import CannotOpenSegment, Encryption
from borzoi.storage.files import Files, FileStatus
from borzoi.storage.layout import DataLayout, stored_log_path
from borzoi.storage.reader import TRIES_MAX, PartitionReader
from borzoi.storage.reencryptor import ReencryptionStopped, reencrypt_segment
from borzoi.storage.sealed_blocks import SegmentStays
from borzoi.storage.used_keys import NO_KEY, used_by_segments
from tests.storage.ciphers import KEY, NAMESPACE, OTHER_KEY, exchanged
from tests.storage.faults import FailingFiles
from tests.storage.partitions import ALL, BIRTH, NOW_US, Partition, payloads_in

PAYLOADS = [b'{"secret order": %d, "state": "new"}' % number * 9 for number in range(12)]
LARGE = bytes(70_000)


def exchanging(root: Path, codec: Codec = Codec.NONE, files: Files | None = None) -> Partition:
    """Messages of several times, sealed with the key of before, and the key of now in place."""
    encryption = Encryption(KEY, encrypts=True)
    partition = Partition(root, cipher=encryption.partition(NAMESPACE, BIRTH), files=files)
    for number in range(0, 12, 3):
        partition.now_us = NOW_US + number
        partition.append(*PAYLOADS[number : number + 3])
    partition.append(LARGE)
    partition.log.roll()
    if codec is not Codec.NONE:
        partition.compress(codec, block_size=700)
    partition.append(b"active")
    encryption.take((OTHER_KEY, KEY))
    return partition


ALL_PAYLOADS = [*PAYLOADS, LARGE, b"active"]
BOTH_FORMS = pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])


def log_of(partition: Partition, codec: Codec) -> Path:
    return Path(stored_log_path(partition.directory, 0, codec))


def with_keys(partition: Partition, encryption: Encryption) -> list[str]:
    """Open it again, as another run with these keys; the report of the recovery."""
    partition.cipher = encryption.partition(NAMESPACE, BIRTH)
    return partition.reopen()


@BOTH_FORMS
def test_it_reads_as_before_and_needs_the_new_key_only(tmp_path: Path, codec: Codec) -> None:
    partition = exchanging(tmp_path, codec)
    path = log_of(partition, codec)
    before, index = path.read_bytes(), partition.index_file(0).read_bytes()
    assert partition.log.segments.outdated_count == 1
    assert partition.reencrypt() == 1
    assert partition.log.segments.outdated_count == 0
    after = path.read_bytes()
    assert len(after) == len(before)
    assert partition.index_file(0).read_bytes() == index
    assert partition.read() == ALL_PAYLOADS
    partition.log.roll()
    assert partition.reencrypt() == 1
    assert with_keys(partition, Encryption(OTHER_KEY, encrypts=True)) == []
    assert partition.read() == ALL_PAYLOADS
    for number in range(0, 12, 3):
        found = partition.reader.find_timestamp(partition.log.written, NOW_US + number)
        assert found == number
    for offset in range(14):
        assert partition.read(offset, 3) == ALL_PAYLOADS[offset : offset + 3]
    assert partition.repair_index(0) == []


def test_nothing_of_the_old_bytes_is_left(tmp_path: Path) -> None:
    partition = exchanging(tmp_path)
    before = partition.log_file(0).read_bytes()
    partition.reencrypt()
    after = partition.log_file(0).read_bytes()
    # The last message, its tag and its nonce: wherever the same bytes lay, others are there now.
    tail = range(len(after) - len(LARGE) - 28, len(after) - 11)
    pieces = {before[at : at + 12] for at in tail}
    assert not any(after[at : at + 12] in pieces for at in tail)


@BOTH_FORMS
def test_what_a_reader_holds_stays_as_it_was(tmp_path: Path, codec: Codec) -> None:
    partition = exchanging(tmp_path, codec)
    held = partition.read_slices(0, ALL, ALL)
    also = partition.new_reader()
    assert payloads_in(also.read(partition.log.written, 0, 5, ALL)) == PAYLOADS[:5]
    partition.reencrypt()
    # Unasked: it has the old file open, and goes on with it or finds the other one.
    assert payloads_in(also.read(partition.log.written, 5, ALL, ALL)) == ALL_PAYLOADS[5:]
    also.replaced(0)
    assert payloads_in(also.read(partition.log.written, 0, ALL, ALL)) == ALL_PAYLOADS
    assert payloads_in(held) == ALL_PAYLOADS


@BOTH_FORMS
def test_any_number_of_segments_may_be_replaced_during_one_read(
    tmp_path: Path, codec: Codec
) -> None:
    encryption = Encryption(KEY, encrypts=True)
    partition = Partition(
        tmp_path, segment_size_max=1, cipher=encryption.partition(NAMESPACE, BIRTH)
    )
    for payload in PAYLOADS:
        partition.append(payload)
        partition.log.roll()
    if codec is not Codec.NONE:
        partition.compress(codec)
    partition.append(b"active")
    encryption.take((OTHER_KEY, KEY))
    partition.log.sync()
    waiting = partition.log.segments.outdated(partition.log.written)
    assert len(waiting) > TRIES_MAX

    class Replacing(Files):
        """Each look at a sealed log is followed by its replacement, once."""

        def status_of(self, path: str | os.PathLike[str]) -> FileStatus:
            found = super().status_of(path)
            self._replace(str(path))
            return found

        def open(self, path: str | os.PathLike[str], flags: int, mode: int = 0o600) -> int:
            fd = super().open(path, flags, mode)
            self._replace(str(path))
            return fd

        def _replace(self, path: str) -> None:
            for segment in waiting:
                if path == segment.log_path(partition.directory):
                    waiting.remove(segment)
                    partition.reencrypt(only=segment.first_offset)
                    return

    reader = PartitionReader(
        partition.directory, partition.new_windows(), Replacing(), cipher=partition.cipher
    )
    # By pieces: what was looked at for one is read for the next, after its replacement.
    found: list[bytes] = []
    while len(found) < len(PAYLOADS) + 1:
        read = reader.read(partition.log.written, len(found), 8, ALL)
        found += payloads_in(read)
    assert found == [*PAYLOADS, b"active"]
    assert waiting == []


def test_without_the_old_key_it_does_not_open(tmp_path: Path) -> None:
    partition = exchanging(tmp_path)
    with_keys(partition, Encryption(OTHER_KEY, encrypts=True))
    cipher, segment = partition.cipher, partition.log.sealed[0]
    assert cipher is not None
    assert segment.form.header is not None
    with pytest.raises(CannotOpenSegment, match=KEY.id.hex()):
        cipher.resume(0, segment.form.header)
    with pytest.raises(SegmentStays, match=KEY.id.hex()):
        reencrypt_segment(partition.directory, segment, Files(), lambda: False, cipher)
    assert with_keys(partition, exchanged()) == []
    assert partition.read() == ALL_PAYLOADS


@BOTH_FORMS
def test_a_damaged_segment_stays_as_it_is(tmp_path: Path, codec: Codec) -> None:
    partition = exchanging(tmp_path, codec)
    path = log_of(partition, codec)
    data = bytearray(path.read_bytes())
    data[len(data) // 3] ^= 1
    rotten = bytes(data)
    path.write_bytes(rotten)
    with pytest.raises(SegmentStays):
        partition.reencrypt()
    assert path.read_bytes() == rotten
    assert list(Path(partition.directory).glob("*.tmp")) == []


@BOTH_FORMS
def test_a_fault_at_any_call_leaves_one_of_the_two_files(tmp_path: Path, codec: Codec) -> None:
    files = FailingFiles()
    partition = exchanging(tmp_path, codec, files=files)
    faults = 0
    for nth in range(1, 100):
        partition.log.sync()
        files.fail_nth(nth, errno.EIO, once=False)
        try:
            done = partition.reencrypt()
        except OSError:
            faults += 1
            files.repair()
            # As after a kill: the next start removes what was not finished.
            assert partition.reopen() == [] or partition.log.recovery.report
            assert partition.read() == ALL_PAYLOADS
            assert list(Path(partition.directory).glob("*.tmp")) == []
        else:
            files.repair()
            assert done == 0 or faults > 3
            break
    assert partition.log.segments.outdated_count == 0
    assert partition.read() == ALL_PAYLOADS


def test_it_ends_when_the_broker_stops(tmp_path: Path) -> None:
    partition = exchanging(tmp_path)
    assert partition.cipher is not None
    segment = partition.log.sealed[0]
    with pytest.raises(ReencryptionStopped):
        reencrypt_segment(partition.directory, segment, Files(), lambda: True, partition.cipher)
    assert list(Path(partition.directory).glob("*.tmp")) == []


def test_a_segment_that_went_meanwhile_is_not_brought_back(tmp_path: Path) -> None:
    partition = exchanging(tmp_path)
    assert partition.cipher is not None
    partition.log.sync()
    segment = partition.log.sealed[0]
    form, old_file = reencrypt_segment(
        partition.directory, segment, Files(), lambda: False, partition.cipher
    )
    partition.delete_oldest(1)
    assert not partition.log.segments.place_reencrypted(segment, form)
    Files().close(old_file)
    assert not partition.log_file(0).exists()
    assert list(Path(partition.directory).glob("*.tmp")) == []


def test_the_next_batch_begins_a_segment_of_the_new_key(tmp_path: Path) -> None:
    partition = exchanging(tmp_path)
    assert partition.log.is_active_outdated
    partition.append(b"new")
    assert not partition.log.is_active_outdated
    assert [one.first_offset for one in partition.log.sealed] == [0, 13]
    partition.reencrypt()
    assert with_keys(partition, Encryption(OTHER_KEY, encrypts=True)) == []
    assert partition.read() == [*ALL_PAYLOADS, b"new"]


@pytest.mark.parametrize("has_files", [False, True])
def test_an_empty_active_segment_is_made_again(tmp_path: Path, has_files: bool) -> None:
    encryption = Encryption(KEY, encrypts=True)
    partition = Partition(tmp_path, cipher=encryption.partition(NAMESPACE, BIRTH))
    if has_files:
        partition.log.make_files()
    encryption.take((OTHER_KEY, KEY))
    assert partition.log.is_active_outdated
    partition.log.roll()
    assert not partition.log.is_active_outdated
    partition.append(b"first")
    assert with_keys(partition, Encryption(OTHER_KEY, encrypts=True)) == []
    assert partition.read() == [b"first"]


def test_which_keys_the_segments_of_a_directory_need(tmp_path: Path) -> None:
    layout = DataLayout(tmp_path)
    assert used_by_segments(layout, Files()) == {}
    partition = exchanging(tmp_path, Codec.ZSTD)
    used = used_by_segments(layout, Files())
    assert {key_id: one.segments for key_id, one in used.items()} == {KEY.id: 2}
    partition.log.roll()
    assert used_by_segments(layout, Files()).keys() == {KEY.id}, "an empty segment needs no key"
    partition.append(b"new")
    partition.reencrypt()
    assert used_by_segments(layout, Files()).keys() == {OTHER_KEY.id}
    plain = Partition(tmp_path / "other")
    plain.append(b"in clear")
    assert used_by_segments(DataLayout(tmp_path / "other"), Files()).keys() == {NO_KEY}
