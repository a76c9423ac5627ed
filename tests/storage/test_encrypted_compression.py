"""Segments that are compressed and encrypted: smaller, secret, and read like any other."""

import itertools
from pathlib import Path

import pytest

from borzoi.protocol.batch import SeenIds
from borzoi.protocol.errors import BrokerError, InvalidMessageChecksum
from borzoi.protocol.message import decode_messages
from borzoi.storage.block_index import HEADER
from borzoi.storage.check_partition import check_partition
from borzoi.storage.codecs import Codec
from borzoi.storage.compressor import compress_segment
from borzoi.storage.encrypted import PartitionCipher
from borzoi.storage.files import Files
from borzoi.storage.findings import Findings, Level
from borzoi.storage.layout import COMPRESSED, stored_log_path
from borzoi.storage.recent_ids import remember_tail
from borzoi.storage.sealed_blocks import SegmentStays
from borzoi.storage.segment_form import COPY_SIZE, HEADER_SIZE, form_of
from tests.storage.ciphers import OTHER_KEY, encrypted_partition, partition_cipher
from tests.storage.partitions import ALL, NOW_US, Partition, overwrite, payloads_in
from tests.storage.test_compression import read_without_waiting

PAYLOADS = [b'{"secret order": %d, "state": "new"}' % number for number in range(12)]


def packed(root: Path, codec: Codec = Codec.ZSTD) -> Partition:
    """Six messages in three blocks of a compressed segment, and six in the active one."""
    partition = encrypted_partition(root)
    for number, payload in enumerate(PAYLOADS):
        partition.now_us = NOW_US + number
        partition.append(payload)
        if number == 5:
            partition.log.roll()
    assert partition.compress(codec, block_size=300) == 1
    return partition


def packed_file(partition: Partition, codec: Codec = Codec.ZSTD) -> Path:
    return Path(stored_log_path(partition.directory, 0, codec))


@pytest.mark.parametrize("codec", COMPRESSED)
def test_it_is_read_like_a_plain_one(tmp_path: Path, codec: Codec) -> None:
    partition = packed(tmp_path, codec)
    assert not partition.log_file(0).exists()
    size_bytes = sum(64 + len(payload) for payload in PAYLOADS)
    for _ in range(2):
        assert partition.log.written.size_bytes == size_bytes
        assert partition.read() == PAYLOADS
        for offset in range(12):
            assert partition.read(offset, 3) == PAYLOADS[offset : offset + 3]
            found = partition.reader.find_timestamp(partition.log.written, NOW_US + offset)
            assert found == offset
        slices = partition.reader.read(partition.log.written, 0, ALL, ALL)
        messages = decode_messages(memoryview(b"".join(slices.views)))
        assert [message.offset for message in messages] == list(range(12))
        assert partition.reopen() == []
        slices, loads = read_without_waiting(partition, 0, 12)
        assert payloads_in(slices) == PAYLOADS
        assert 0 < loads <= 2, "how it was written, then its blocks"
        slices, loads = read_without_waiting(partition, 0, 6)
        assert (payloads_in(slices), loads) == (PAYLOADS[:6], 0)


def test_nothing_secret_reaches_the_disk_and_the_index_stays(tmp_path: Path) -> None:
    partition = encrypted_partition(tmp_path)
    partition.append(*[b"secret " * 500] * 4)
    partition.log.roll()
    index = partition.index_file(0).read_bytes()
    salt = form_of(partition.log_file(0).read_bytes()).header
    partition.compress(Codec.LZ4, block_size=1 << 20)
    assert partition.index_file(0).read_bytes() == index
    stored = packed_file(partition, Codec.LZ4).read_bytes()
    assert len(stored) < 1000
    for path in Path(partition.directory).iterdir():
        assert path.is_dir() or b"secret" not in path.read_bytes()
    header = form_of(stored[HEADER.size :]).header
    assert header is not None
    assert salt is not None
    assert header.salt != salt.salt, "every file has a key of its own"


def test_every_way_a_segment_can_lie_there_in_one_log(tmp_path: Path) -> None:
    """Plain, compressed, encrypted, both; read from everywhere across the borders."""
    partition = Partition(tmp_path)
    expected: list[bytes] = []
    for compressed, cipher in itertools.product((True, False), (None, partition_cipher())):
        partition.log.sync()
        partition.cipher = cipher
        partition.reopen()
        payloads = [b"%d %d " % (len(expected), number) * 9 for number in range(4)]
        partition.append(*payloads)
        expected += payloads
        if compressed:
            partition.log.roll()
            partition.compress(Codec.GZIP)
    kinds = [(one.codec, one.form.header is not None) for one in partition.log.sealed]
    assert kinds == [(Codec.GZIP, False), (Codec.GZIP, True), (Codec.NONE, False)]
    for _ in range(2):
        for offset in range(len(expected)):
            for count in (1, 5, 16):
                assert partition.read(offset, count) == expected[offset : offset + count]
        slices, _ = read_without_waiting(partition, 0, 8)
        assert payloads_in(slices) == expected[:8]
        assert partition.reopen() == []
    partition.cipher = partition_cipher(encrypts=False)
    assert partition.reopen() == []
    assert partition.read() == expected, "also when it is switched off again"


def test_a_lost_index_is_made_again_byte_for_byte(tmp_path: Path) -> None:
    partition = packed(tmp_path)
    path = partition.index_file(0)
    index = path.read_bytes()
    path.unlink()
    assert partition.reopen() == [f"{0:020d}: index rebuilt from the log"]
    assert path.read_bytes() == index
    overwrite(path, index[:20] + b"\xff" + index[21:])
    assert any("index rewritten" in line for line in partition.repair_index(0))
    assert path.read_bytes() == index
    assert partition.repair_index(0) == []


@pytest.mark.slow
def test_every_bit(tmp_path: Path) -> None:
    """A flip costs the messages of its block, never gives others, and is reported."""
    partition = packed(tmp_path)
    path = packed_file(partition)
    whole = path.read_bytes()
    lost = set()
    for bit in range(0, len(whole) * 8, 7):
        data = bytearray(whole)
        data[bit // 8] ^= 1 << bit % 8
        overwrite(path, bytes(data))
        partition.reader = partition.new_reader()
        found = {}
        for offset in range(6):
            try:
                found[offset] = payloads_in(partition.read_slices(offset, 1))[0]
            except InvalidMessageChecksum:
                continue
        assert found == {offset: PAYLOADS[offset] for offset in found}
        lost.add(6 - len(found))
    assert lost == {0, 2}


@pytest.mark.parametrize(
    "cipher",
    [
        None,
        partition_cipher(OTHER_KEY),
        partition_cipher(namespace=1),
        partition_cipher(birth=1),
    ],
)
def test_it_opens_with_its_key_and_in_its_place_only(
    tmp_path: Path, cipher: PartitionCipher | None
) -> None:
    partition = packed(tmp_path)
    partition.cipher = cipher
    partition.reader = partition.new_reader()
    for offset in range(6):
        with pytest.raises(BrokerError):
            partition.reader.read(partition.log.written, offset, 1, ALL)


def test_blocks_cannot_change_places(tmp_path: Path) -> None:
    """Not even with checksums made to fit: the place is authenticated."""
    partition = packed(tmp_path)
    path = packed_file(partition)
    data = bytearray(path.read_bytes())
    # Both copies of the header of another file: its key is another.
    other = packed(tmp_path / "other")
    start = HEADER.size
    data[start : start + HEADER_SIZE] = packed_file(other).read_bytes()[start:][:HEADER_SIZE]
    overwrite(path, bytes(data))
    partition.reader = partition.new_reader()
    for offset in range(6):
        with pytest.raises(InvalidMessageChecksum):
            partition.read(offset, 1)


def test_half_of_the_header_is_enough(tmp_path: Path) -> None:
    partition = packed(tmp_path)
    path = packed_file(partition)
    whole = path.read_bytes()
    for at in (HEADER.size, HEADER.size + COPY_SIZE):
        overwrite(path, whole[:at] + bytes(COPY_SIZE) + whole[at + COPY_SIZE :])
        assert partition.reopen() == []
        assert partition.read() == PAYLOADS


def test_a_message_that_does_not_open_is_not_compressed(tmp_path: Path) -> None:
    partition = encrypted_partition(tmp_path)
    partition.append(*PAYLOADS)
    partition.log.roll()
    partition.log.sync()
    (segment,) = partition.log.segments.compressible(partition.log.written)
    for cipher in (None, partition_cipher(OTHER_KEY)):
        with pytest.raises(SegmentStays):
            compress_segment(
                partition.directory, segment, Codec.ZSTD, Files(), lambda: False, cipher=cipher
            )
    assert not list(Path(partition.directory).glob("*.zstd*"))


def test_ids_are_read_back(tmp_path: Path) -> None:
    partition = encrypted_partition(tmp_path)
    partition.append(*PAYLOADS)  # with the ids 1 to 12
    partition.log.roll()
    partition.compress(Codec.LZ4)
    for count in (12, 5):
        seen = SeenIds(100, 0, 1)
        remember_tail(
            seen, partition.directory, partition.log.tail(count), 0, Files(), partition.cipher
        )
        assert len(seen) == count


def test_check_with_and_without_the_key(tmp_path: Path) -> None:
    partition = packed(tmp_path)
    partition.log.close()
    size_bytes = partition.log.written.size_bytes

    def check(cipher: PartitionCipher | None, *, repair: bool = False) -> Findings:
        findings = Findings(repair)
        check_partition(
            partition.directory, None, findings, Files(), cipher_of_birth=lambda _birth: cipher
        )
        return findings

    for cipher in (None, partition_cipher()):
        found = check(cipher)
        assert found.found == []
        assert (found.counts.messages, found.counts.message_bytes) == (12, size_bytes)
    index = partition.index_file(0)
    whole = index.read_bytes()
    overwrite(index, whole[:-1] + b"x")
    assert [one.level for one in check(None, repair=True).found] == [Level.DAMAGED]
    assert index.read_bytes() != whole, "without the key it is left alone"
    assert [one.level for one in check(partition_cipher(), repair=True).found] == [Level.MENDABLE]
    assert index.read_bytes() == whole
    path = packed_file(partition)
    data = bytearray(path.read_bytes())
    data[HEADER.size + HEADER_SIZE + 40] ^= 1
    overwrite(path, bytes(data))
    for cipher in (None, partition_cipher()):
        damaged = [one for one in check(cipher, repair=True).found if one.level is Level.DAMAGED]
        assert any("block 0" in one.text for one in damaged)
    assert index.read_bytes() == whole, "damage of a block is no reason to change a right index"
