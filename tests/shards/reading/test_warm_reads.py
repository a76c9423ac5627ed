"""Bytes that are not in memory are fetched by a thread, never by the loop."""

import os
from pathlib import Path

import pytest

from borzoi.protocol.errors import BrokerError
from borzoi.shards.partitions.durability import Durability
from borzoi.shards.reading.warm_reads import ROOM_INTERVAL_S, WarmReads
from borzoi.storage.encrypted import Encryption
from borzoi.storage.outcome import Cold, Doubt, Slices
from borzoi.storage.reader import PartitionReader
from tests.shards.owner import COPIED_SIZE_MAX, TARGET, Owner
from tests.storage.ciphers import KEY

MESSAGES = 64
PAYLOAD = b"p" * 4000


@pytest.fixture
def stopped(tmp_path: Path) -> Owner:
    """A partition whose log is not in the page cache, and nothing of it counts as recent."""
    owner = Owner(tmp_path, Durability.WRITTEN, recent_size=0)
    for _ in range(MESSAGES):
        owner.send(PAYLOAD)
    owner.loop.settle()
    owner.succeed()
    evict(owner.log_file)
    return owner


def evict(path: Path) -> None:
    fd = os.open(path, os.O_RDWR)
    try:
        os.fsync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(fd)


def run_disk(owner: Owner) -> None:
    while owner.disk.waiting:
        owner.disk.run_next()


def reader_of(owner: Owner) -> PartitionReader:
    return owner.readers.reader(TARGET)


def is_cold(owner: Owner) -> bool:
    found = reader_of(owner).attempt(owner.published, 0, MESSAGES, 1 << 30, may_wait=False)
    return isinstance(found, Cold)


def test_cold_bytes_are_fetched_by_a_thread_and_then_served(stopped: Owner) -> None:
    if not is_cold(stopped):
        pytest.fail("the page cache kept the file although it was asked to drop it")
    found: list[Slices | Doubt | BrokerError] = []
    reads = WarmReads(stopped.loop.as_loop, stopped.disk, stopped.files, stopped.copy_memory)
    reader = reader_of(stopped)
    reads.read(
        reader,
        stopped.published,
        0,
        MESSAGES,
        1 << 30,
        found.append,
        user=1,
    )
    assert found == [], "nothing is answered before the thread has read"
    run_disk(stopped)
    stopped.loop.settle()
    (slices,) = found
    assert isinstance(slices, Slices)
    assert slices.message_count == MESSAGES
    # A miss, however many ranges had to be fetched for it.
    assert (reader.reads_count, reader.cold_count) == (1, 1)
    assert not is_cold(stopped)


def test_warm_bytes_are_served_at_once(stopped: Owner) -> None:
    stopped.log_file.read_bytes()
    found: list[Slices | Doubt | BrokerError] = []
    reader = reader_of(stopped)
    WarmReads(stopped.loop.as_loop, stopped.disk, stopped.files, stopped.copy_memory).read(
        reader,
        stopped.published,
        3,
        5,
        1 << 30,
        found.append,
        user=1,
    )
    (slices,) = found
    assert isinstance(slices, Slices)
    assert (slices.first_offset, slices.message_count) == (3, 5)
    assert (reader.reads_count, reader.cold_count) == (1, 0)


def test_what_was_written_lately_is_not_even_looked_up(tmp_path: Path) -> None:
    owner = Owner(tmp_path, Durability.WRITTEN)
    owner.send(PAYLOAD)
    owner.loop.settle()
    evict(owner.log_file)
    read = reader_of(owner).attempt(owner.published, 0, 1, 1 << 30, may_wait=False)
    assert isinstance(read, Slices)
    assert read.message_count == 1


def test_a_file_that_vanished_while_it_was_fetched_is_an_error_not_a_hang(stopped: Owner) -> None:
    found: list[Slices | Doubt | BrokerError] = []
    WarmReads(stopped.loop.as_loop, stopped.disk, stopped.files, stopped.copy_memory).read(
        reader_of(stopped),
        stopped.published,
        0,
        MESSAGES,
        1 << 30,
        found.append,
        user=1,
    )
    stopped.log_file.unlink()
    for _ in range(20):
        run_disk(stopped)
        stopped.loop.settle()
    assert len(found) == 1


def test_decryption_waits_for_memory_and_gives_it_back(tmp_path: Path) -> None:
    owner = Owner(tmp_path, Durability.WRITTEN, encryption=Encryption(KEY, encrypts=True))
    for _ in range(MESSAGES):
        owner.send(PAYLOAD)
    owner.loop.settle()
    memory = owner.copy_memory
    memory.reading_for = "user 2"
    others = memory.take(COPIED_SIZE_MAX - 1000)
    found: list[Slices | Doubt | BrokerError] = []
    reads = WarmReads(owner.loop.as_loop, owner.disk, owner.files, memory)
    reads.read(
        reader_of(owner),
        owner.published,
        0,
        MESSAGES,
        1 << 30,
        found.append,
        user=1,
    )
    owner.loop.advance(10 * ROOM_INTERVAL_S)
    assert found == []
    assert not owner.disk.waiting
    del others
    owner.loop.advance(ROOM_INTERVAL_S)
    run_disk(owner)
    owner.loop.settle()
    (slices,) = found
    assert isinstance(slices, Slices)
    assert slices.message_count == MESSAGES
    assert memory.size > MESSAGES * len(PAYLOAD)
    found.clear()
    del slices
    assert memory.size == 0
    assert memory.reserve(COPIED_SIZE_MAX), "nothing stays reserved"
    owner.close()
