"""Encrypted segments: what is on the disk, what comes back, and what never does."""

import os
import struct
from pathlib import Path

import pytest
import xxhash

from borzoi.protocol.batch import decode_batch, scan_log
from borzoi.protocol.errors import BrokerError, CannotDecryptData, InvalidMessageChecksum
from borzoi.protocol.message import USER_HEADERS_SIZE_MAX, Message, checksum_of, encode_messages
from borzoi.storage import decryption
from borzoi.storage.clean_stop import CleanPartition
from borzoi.storage.copy_memory import READ_PART, CopyMemory
from borzoi.storage.decryption import Encrypted
from borzoi.storage.encrypted import SEAL_MESSAGES_MAX, SEAL_SIZE_MAX
from borzoi.storage.files import Files
from borzoi.storage.outcome import Slices
from borzoi.storage.plain_blocks import PlainBlocks
from borzoi.storage.reader import PartitionReader
from borzoi.storage.segment_form import COPY_SIZE, HEADER_SIZE, MESSAGE_OVERHEAD, form_of
from tests.storage.ciphers import (
    OTHER_KEY,
    encrypted_partition,
    partition_cipher,
    random_payloads,
)
from tests.storage.partitions import ALL, BIRTH, NOW_US, Partition, begin_next_life, overwrite

PAYLOADS = [b"the first secret", b"", b"a third one that is longer than the others", b"4"]
SEALS = [[0], [1, 2], [3]]
CHECKSUM = struct.Struct("<Q")


def messages_of(partition: Partition, first_offset: int = 0) -> list[Message]:
    slices = partition.reader.read(partition.log.written, first_offset, ALL, ALL)
    data = memoryview(b"".join(slices.views))
    scan = scan_log(data, slices.first_offset, segment_first_offset=0, position=0)
    assert (scan.message_count, scan.valid_size) == (slices.message_count, slices.size)
    return decode_batch(data)


def restamped(stored: bytearray, at: int) -> None:
    """Give a stored message a valid checksum again, as an attacker who changed it would."""
    headers, payload = struct.unpack_from("<II", stored, at + 48)
    end = at + 64 + headers + payload
    CHECKSUM.pack_into(stored, at, xxhash.xxh3_64_intdigest(stored[at + 8 : end]))


def message_places(partition: Partition) -> list[tuple[int, int]]:
    index = partition.index_file().read_bytes()
    ends = [struct.unpack_from("<4xI8x", index, at)[0] for at in range(0, len(index), 16)]
    return list(zip([HEADER_SIZE, *ends], ends, strict=False))


def test_what_was_sent_comes_back_with_everything_it_had(tmp_path: Path) -> None:
    partition = encrypted_partition(tmp_path)
    sent = [
        Message(b"payload", id=11, user_headers=b"user headers", origin_timestamp=5),
        Message(b"", id=12, user_headers=b"only headers"),
        Message(b"only a payload"),
    ]
    batch = memoryview(bytearray(encode_messages(sent)))
    partition.log.stage(batch, 3, NOW_US)
    partition.log.write()
    # The batch itself is stamped as clients will see it.
    assert messages_of(partition) == decode_batch(batch)
    for number, message in enumerate(messages_of(partition)):
        assert (message.payload, message.user_headers) == (
            sent[number].payload,
            sent[number].user_headers,
        )
        assert message.offset == number
        assert message.timestamp == NOW_US
        assert message.checksum == checksum_of(memoryview(encode_messages([message])))
    assert messages_of(partition)[0].origin_timestamp == 5
    assert partition.reopen() == []
    assert messages_of(partition) == decode_batch(batch)


def test_nothing_secret_reaches_the_disk(tmp_path: Path) -> None:
    partition = encrypted_partition(tmp_path, segment_size_max=1024)
    for _ in range(20):
        batch = encode_messages([Message(b"MARKER-payload", 1, b"MARKER-headers")] * 3)
        partition.log.stage(memoryview(bytearray(batch)), 3, NOW_US)
        partition.log.write()
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(partition.sizes(".log")) > 3
    assert not any(b"MARKER" in path.read_bytes() for path in files)


def test_sizes_are_those_on_the_wire(tmp_path: Path) -> None:
    plain = Partition(tmp_path / "plain", segment_size_max=1024)
    encrypted = encrypted_partition(tmp_path / "encrypted", segment_size_max=1024)
    for number in range(30):
        for partition in (plain, encrypted):
            partition.append(*[bytes(number)] * 3)
    expected = 90 * 64 + 3 * sum(range(30))
    assert plain.log.written.size_bytes == expected
    assert encrypted.log.written.size_bytes == expected
    assert sum(encrypted.sizes(".log").values()) == (
        expected + 90 * MESSAGE_OVERHEAD + encrypted.log.written.segment_count * HEADER_SIZE
    )
    encrypted.reopen()
    assert encrypted.log.written.size_bytes == expected
    encrypted.delete_oldest(2)
    read = encrypted.reader.read(encrypted.log.written, 0, ALL, ALL)
    assert encrypted.log.written.size_bytes == read.size


@pytest.mark.no_cover
def test_a_byte_that_was_changed_is_an_error_or_changes_nothing(tmp_path: Path) -> None:
    """Each byte of the file, as rot leaves it and with the checksum made good again."""
    partition = encrypted_partition(tmp_path)
    # One alone, two in a seal, and one more alone.
    for batch in SEALS:
        partition.append(*[PAYLOADS[offset] for offset in batch])
    partition.log.sync()
    partition.log.save_recovery_point()
    clean = partition.log.clean_partition(0)
    good = partition.log_file().read_bytes()
    places = message_places(partition)
    refused = 0
    for position in range(len(good)):
        at = next((start for start, end in places if start <= position < end), None)
        for mend in (False, True):
            bad = bytearray(good)
            bad[position] ^= 0x55
            if mend and at is not None and not 48 <= position - at < 56:
                restamped(bad, at)
            overwrite(partition.log_file(), bytes(bad))
            partition.reopen(clean)
            for offset, payload in enumerate(PAYLOADS):
                try:
                    found = partition.read(offset, 1)
                except (CannotDecryptData, InvalidMessageChecksum):
                    refused += 1
                    # Only the seal that was hit.
                    (seal,) = (seal for seal in SEALS if offset in seal)
                    assert at in [places[each][0] for each in seal]
                else:
                    assert found in ([payload], []), (position, mend, offset)
    # All but the header, which is there twice, and checksums, which protect nothing from changes.
    sizes = [places[seal[-1]][1] - places[seal[0]][0] - 16 * len(seal) for seal in SEALS]
    assert refused >= 2 * sum(size * len(seal) for size, seal in zip(sizes, SEALS, strict=True))


@pytest.mark.parametrize("sealed_together", [True, False])
def test_messages_cannot_change_places(tmp_path: Path, sealed_together: bool) -> None:
    partition = encrypted_partition(tmp_path)
    batches = [[b"one", b"two"]] if sealed_together else [[b"one"], [b"two"]]
    for batch in [*batches, [b"six"]]:
        partition.append(*batch)
    clean = _synced(partition)
    good = partition.log_file().read_bytes()
    (first, second, third) = message_places(partition)
    swapped = bytearray(good)
    swapped[slice(*first)], swapped[slice(*second)] = good[slice(*second)], good[slice(*first)]
    for number, at in ((0, first[0]), (1, second[0])):
        struct.pack_into("<Q", swapped, at + 24, 1 << 63 | number)
        if sealed_together:
            struct.pack_into("<II", swapped, at + 56, number, 2)
        restamped(swapped, at)
    overwrite(partition.log_file(), bytes(swapped))
    partition.reopen(clean)
    for offset in (0, 1):
        with pytest.raises(CannotDecryptData, match="was changed"):
            partition.read(offset, 1)
    assert partition.read(2) == [b"six"]
    assert third[1] == len(good)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"key": OTHER_KEY}, "another key"),
        ({"namespace": 0x43}, "written for namespace 0x42"),
        ({"birth": BIRTH + 1}, "written for namespace"),
    ],
)
def test_a_segment_opens_with_its_key_and_in_its_place_only(
    tmp_path: Path, options: dict[str, object], reason: str
) -> None:
    partition = encrypted_partition(tmp_path)
    partition.append(b"secret")
    partition.cipher = partition_cipher(**options)  # type: ignore[arg-type] # a table of cases
    partition.reopen()
    with pytest.raises(CannotDecryptData, match=reason):
        partition.read()
    # It is not appended to either: what comes next has a segment of its own.
    assert partition.append(b"mine") == 1
    assert partition.read(1) == [b"mine"]
    assert list(partition.sizes(".log")) == [0, 1]


def test_a_segment_under_another_name_does_not_open(tmp_path: Path) -> None:
    partition = encrypted_partition(tmp_path, segment_size_max=200)
    for payload in (b"aa", b"bb", b"cc", b"dd"):
        partition.append(payload)
    clean = _synced(partition)
    assert list(partition.sizes(".log")) == [0, 2, 4]
    overwrite(partition.log_file(2), partition.log_file(0).read_bytes())
    partition.reopen(clean)
    with pytest.raises(CannotDecryptData, match="offset 0, not for"):
        partition.read(2)
    assert partition.read(0, 2) == [b"aa", b"bb"]


def test_without_a_key_nothing_of_it_is_served(tmp_path: Path) -> None:
    partition = encrypted_partition(tmp_path)
    partition.append(b"secret", b"more")
    partition.cipher = None
    partition.reopen(_synced(partition))
    for offset in (0, 1):
        with pytest.raises(InvalidMessageChecksum):
            partition.read(offset, 1)
    assert partition.append(b"plain") == 2
    assert partition.read(2) == [b"plain"]


@pytest.mark.parametrize("trusted", [True, False])
def test_a_lost_header_never_makes_ciphertext_look_plain(tmp_path: Path, trusted: bool) -> None:
    partition = encrypted_partition(tmp_path)
    partition.append(b"secret", b"more")
    clean = _synced(partition)
    good = partition.log_file().read_bytes()
    # One of two copies is enough.
    overwrite(partition.log_file(), bytes(COPY_SIZE) + good[COPY_SIZE:])
    if not trusted:
        partition.reopen(clean)
    assert partition.new_reader().read(partition.log.written, 0, ALL, ALL).message_count == 2
    overwrite(partition.log_file(), bytes(HEADER_SIZE) + good[HEADER_SIZE:])
    if not trusted:
        partition.reopen(clean)
    partition.reader = partition.new_reader()
    for offset in (0, 1):
        with pytest.raises(InvalidMessageChecksum):
            partition.read(offset, 1)


def test_the_largest_user_headers_survive_a_crash(tmp_path: Path) -> None:
    partition = encrypted_partition(tmp_path)
    headers = bytes(USER_HEADERS_SIZE_MAX)
    batch = memoryview(bytearray(encode_messages([Message(b"x", 1, headers)])))
    partition.log.stage(batch, 1, NOW_US)
    partition.log.write()
    assert partition.reopen() == []
    assert [message.user_headers for message in messages_of(partition)] == [headers]


def test_switched_on_off_and_on_again(tmp_path: Path) -> None:
    partition = Partition(tmp_path)
    partition.append(b"plain 0", b"plain 1")
    partition.cipher = partition_cipher()
    assert partition.reopen() == []
    partition.append(b"secret 2")
    partition.append(b"secret 3")
    partition.cipher = partition_cipher(encrypts=False)
    assert partition.reopen() == []
    partition.append(b"plain 4")
    partition.cipher = partition_cipher()
    assert partition.reopen() == []
    partition.append(b"secret 5")
    assert partition.reopen() == []
    partition.append(b"secret 6")
    assert partition.read() == [
        b"plain 0", b"plain 1", b"secret 2", b"secret 3", b"plain 4", b"secret 5", b"secret 6",
    ]  # fmt: skip
    forms = {
        segment: form_of(partition.log_file(segment).read_bytes()).header is not None
        for segment in partition.sizes(".log")
    }
    assert forms == {0: False, 2: True, 4: False, 5: True}
    on_disk = b"".join(path.read_bytes() for path in Path(partition.directory).glob("*.log"))
    assert b"plain 4" in on_disk
    assert b"secret" not in on_disk
    assert partition.read(3, 2) == [b"secret 3", b"plain 4"]
    assert partition.read(0, 3) == [b"plain 0", b"plain 1", b"secret 2"]


@pytest.mark.parametrize(("before", "after"), [(None, True), (True, False), (None, None)])
def test_an_empty_segment_changes_its_form_with_its_first_message(
    tmp_path: Path, before: bool | None, after: bool | None
) -> None:
    def cipher(encrypts: bool | None) -> object:
        return None if encrypts is None else partition_cipher(encrypts=encrypts)

    partition = Partition(tmp_path, cipher=cipher(before))  # type: ignore[arg-type] # one or none
    partition.log.make_files()
    clean = _synced(partition)
    size = HEADER_SIZE if before else 0
    assert partition.sizes(".log") == {0: size}
    partition.cipher = cipher(after)  # type: ignore[assignment] # one or none
    assert partition.reopen(clean) == []
    # Nothing happens until there is something to write; a clean stop in between is one.
    assert partition.sizes(".log") == {0: size}
    assert partition.reopen(partition.log.clean_partition(0)) == []
    partition.log.sync()
    partition.append(b"x")
    assert partition.sizes(".log") == {0: 65 + (HEADER_SIZE + MESSAGE_OVERHEAD) * bool(after)}
    assert partition.reopen() == []
    assert partition.read() == [b"x"]
    assert partition.log.written.size_bytes == 65


def test_a_recovery_point_of_the_empty_segment_is_no_bound_in_its_other_form(
    tmp_path: Path,
) -> None:
    partition = encrypted_partition(tmp_path)
    partition.log.make_files()
    _synced(partition)
    partition.log.save_recovery_point()
    partition.cipher = partition_cipher(encrypts=False)
    partition.reopen()
    partition.append(b"the first bytes lie where the header was, and must not be cut")
    assert partition.reopen() == []
    assert len(partition.read()) == 1


@pytest.mark.no_cover
def test_torn_at_every_byte(tmp_path: Path) -> None:
    partition = encrypted_partition(tmp_path)
    for payload in PAYLOADS:
        partition.append(payload)
    whole = partition.log_file().read_bytes()
    index = partition.index_file().read_bytes()
    ends = [end for _, end in message_places(partition)]
    for size in range(len(whole) + 1):
        overwrite(partition.log_file(), whole[:size])
        overwrite(partition.index_file(), index)
        partition.reopen()
        left = sum(end <= size for end in ends)
        assert partition.read() == PAYLOADS[:left]
        assert partition.append(b"next") == left
        assert partition.read() == [*PAYLOADS[:left], b"next"]
        partition.reopen()
        assert partition.read() == [*PAYLOADS[:left], b"next"]


@pytest.mark.no_cover
def test_torn_in_a_seal_loses_the_whole_seal(tmp_path: Path) -> None:
    partition = encrypted_partition(tmp_path)
    partition.append(PAYLOADS[0])
    partition.append(*PAYLOADS[1:])
    whole = partition.log_file().read_bytes()
    index = partition.index_file().read_bytes()
    first_end = message_places(partition)[0][1]
    for size in range(first_end, len(whole)):
        overwrite(partition.log_file(), whole[:size])
        overwrite(partition.index_file(), index)
        partition.reopen()
        assert partition.log_file().stat().st_size == first_end
        assert partition.append(b"next", b"more") == 1
        assert partition.read() == [PAYLOADS[0], b"next", b"more"]


@pytest.mark.no_cover
def test_every_range_of_messages_in_seals_of_every_kind(tmp_path: Path) -> None:
    """Alone, together, as many as fit, larger than a seal, over the border of segments."""
    partition = encrypted_partition(tmp_path, segment_size_max=100_000)
    large = SEAL_SIZE_MAX
    sizes = [
        [10], [0, 1, 2], [large - 1, 1, 1], [large, 5], [large + 1], [5, 3 * large, 5],
        [0] * (SEAL_MESSAGES_MAX + 2), [large // 3] * 7,
    ]  # fmt: skip
    payloads: list[bytes] = []
    for batch in sizes:
        fresh = [os.urandom(size) for size in batch]
        partition.append(*fresh)
        payloads += fresh
    assert len(partition.sizes(".log")) > 2
    few = [*range(14), 14 + SEAL_MESSAGES_MAX - 1, *range(14 + SEAL_MESSAGES_MAX, len(payloads))]
    for life in range(2):
        for first in few:
            for count in (1, 2, 3, 8, 2 * SEAL_MESSAGES_MAX):
                assert partition.read(first, count) == payloads[first : first + count], (
                    life, first, count,
                )  # fmt: skip
        partition.reopen(_synced(partition))


def test_a_message_read_alone_holds_only_its_own_memory(tmp_path: Path) -> None:
    partition = encrypted_partition(tmp_path)
    partition.append(*random_payloads(60, 1000))
    memory = CopyMemory(1_000_000)
    partition.reader = reader_with(partition, memory)
    found = partition.reader.attempt(partition.log.written, 30, 1, ALL, may_wait=False)
    assert isinstance(found, Slices)
    assert memory.size == 1064 + MESSAGE_OVERHEAD


def test_an_index_is_rebuilt_without_a_key(tmp_path: Path) -> None:
    partition = encrypted_partition(tmp_path, segment_size_max=256)
    payloads = random_payloads(20)
    for payload in payloads:
        partition.append(payload)
    indexes = {segment: partition.index_file(segment) for segment in partition.sizes(".index")}
    good = {segment: path.read_bytes() for segment, path in indexes.items()}
    for path in indexes.values():
        path.unlink()
    partition.cipher = None
    assert len(partition.reopen()) >= len(indexes)
    assert {segment: path.read_bytes() for segment, path in indexes.items()} == good
    partition.cipher = partition_cipher()
    partition.reopen()
    assert partition.read() == payloads


def test_rot_in_the_middle_leaves_what_follows_readable(tmp_path: Path) -> None:
    partition = encrypted_partition(tmp_path, segment_size_max=900)
    payloads = random_payloads(20)
    for start, end in ((0, 5), (5, 10), (10, 20)):
        partition.append(*payloads[start:end])
    assert list(partition.sizes(".log")) == [0, 20]
    (start, _) = message_places(partition)[7]
    rotten = bytearray(partition.log_file().read_bytes())
    rotten[start + 70] ^= 1
    overwrite(partition.log_file(), bytes(rotten))
    partition.index_file().unlink()
    report = partition.reopen()
    assert any("DAMAGED messages at offsets 7 to 7" in line for line in report)
    assert partition.read(0) == payloads[:5]
    # The others of its seal may have been changed as well, and are not served.
    for offset in range(5, 10):
        with pytest.raises(InvalidMessageChecksum):
            partition.read(offset)
    assert partition.read(10) == payloads[10:]


def test_a_purge_begins_a_segment_with_another_key(tmp_path: Path) -> None:
    partition = encrypted_partition(tmp_path)
    partition.append(b"old")
    old = partition.log_file().read_bytes()
    partition.cipher = partition_cipher(birth=BIRTH + 1)
    begin_next_life(partition, BIRTH + 1)
    partition.reader = partition.new_reader()
    partition.append(b"new")
    new = form_of(partition.log_file().read_bytes()).header
    before = form_of(old).header
    assert new is not None
    assert before is not None
    assert (new.birth, before.birth) == (BIRTH + 1, BIRTH)
    assert new.salt != before.salt
    assert partition.read() == [b"new"]


def test_large_reads_are_left_to_a_thread_and_bounded(tmp_path: Path) -> None:
    partition = encrypted_partition(tmp_path, segment_size_max=100 * 1024)
    read_max = decryption.INLINE_SIZE_MAX + 256 * 1024
    partition.reader = reader_with(partition, CopyMemory(READ_PART * read_max))
    payloads = random_payloads(2000, 1000)
    for start in range(0, 2000, 50):
        partition.append(*payloads[start : start + 50])
    written = partition.log.written
    work = partition.reader.attempt(written, 0, ALL, ALL, may_wait=False)
    assert isinstance(work, Encrypted)
    assert decryption.INLINE_SIZE_MAX < work.size <= read_max
    slices = work.decrypt(memoryview(bytearray(work.size)))
    assert isinstance(slices, Slices)
    assert slices.message_count == read_max // (1064 + MESSAGE_OVERHEAD)
    small = partition.reader.attempt(written, 3, 10, ALL, may_wait=False)
    assert isinstance(small, Slices)
    assert small.message_count == 10
    # A message that is larger than all bounds is read alone.
    offset = partition.append(bytes(2 * read_max), b"next")
    assert partition.read(offset, 2) == [bytes(2 * read_max)]


def test_no_memory_is_no_reason_to_fail_for_those_who_may_wait(tmp_path: Path) -> None:
    partition = encrypted_partition(tmp_path)
    partition.append(b"x")
    memory = CopyMemory(1000)
    partition.reader = reader_with(partition, memory)
    others = memory.take(1000)
    assert others is not None
    written = partition.log.written
    refused = partition.reader.attempt(written, 0, 1, ALL, may_wait=False)
    assert isinstance(refused, Encrypted)
    found = partition.reader.read(written, 0, 1, ALL)
    assert found.message_count == 1
    assert memory.size == 1000 + 65 + MESSAGE_OVERHEAD
    del others, found
    assert memory.size == 0
    again = partition.reader.attempt(written, 0, 1, ALL, may_wait=False)
    assert isinstance(again, Slices)
    assert again.message_count == 1


def reader_with(partition: Partition, memory: CopyMemory) -> PartitionReader:
    return PartitionReader(
        partition.directory,
        partition.new_windows(),
        Files(),
        cipher=partition.cipher,
        blocks=PlainBlocks(memory),
    )


def test_plain_reads_are_not_copied_when_there_is_a_key(tmp_path: Path) -> None:
    partition = Partition(tmp_path, cipher=partition_cipher(encrypts=False))
    partition.append(*PAYLOADS)
    slices = partition.reader.attempt(partition.log.written, 0, ALL, ALL, may_wait=False)
    assert isinstance(slices, Slices)
    assert slices.views[0].readonly  # of the map


def test_an_error_is_always_one_of_the_brokers(tmp_path: Path) -> None:
    """Garbage behind a good header, in every length: no other exception comes out."""
    partition = encrypted_partition(tmp_path)
    partition.append(b"abc", b"def")
    clean = _synced(partition)
    good = partition.log_file().read_bytes()
    for position in range(HEADER_SIZE + 48, HEADER_SIZE + 56):
        for value in (0, 1, 27, 0x7F, 0xFF):
            bad = bytearray(good)
            bad[position] = value
            overwrite(partition.log_file(), bytes(bad))
            partition.reopen(clean)
            try:
                assert partition.read(0) in ([b"abc", b"def"], [b"abc"])
            except BrokerError:
                continue


def _synced(partition: Partition) -> CleanPartition:
    partition.log.sync()
    return partition.log.clean_partition(0)
