"""Anonymous shared memory: sealed, mapped, closed with and without slices in use."""

import os

import pytest

from borzoi.router.memory import PAGE_SIZE, SharedMemoryError, create_memory, map_memory


def test_two_maps_show_the_same_words() -> None:
    fd = create_memory("test", PAGE_SIZE)
    writer = map_memory(fd, PAGE_SIZE, writable=True)
    reader = map_memory(fd, PAGE_SIZE, writable=False)
    os.close(fd)
    writer.words[3] = (1 << 64) - 1
    assert reader.words[3] == (1 << 64) - 1
    assert bytes(reader.bytes[24:32]) == b"\xff" * 8
    assert len(reader.words) * 8 == reader.size == PAGE_SIZE
    assert writer.close()
    assert reader.close()


def test_a_reader_cannot_write() -> None:
    fd = create_memory("test", PAGE_SIZE)
    reader = map_memory(fd, PAGE_SIZE, writable=False)
    os.close(fd)
    with pytest.raises(TypeError):
        reader.words[0] = 1
    assert reader.close()


def test_the_size_is_sealed_and_the_descriptor_private() -> None:
    fd = create_memory("test", PAGE_SIZE)
    assert not os.get_inheritable(fd)
    for size in (0, 2 * PAGE_SIZE):
        with pytest.raises(PermissionError):
            os.ftruncate(fd, size)
    os.close(fd)


def test_memory_smaller_than_announced_is_refused() -> None:
    fd = create_memory("test", PAGE_SIZE)
    with pytest.raises(SharedMemoryError, match="announced"):
        map_memory(fd, PAGE_SIZE + 8, writable=True)
    for size in (0, -8, 12):
        with pytest.raises(SharedMemoryError, match="whole number of words"):
            map_memory(fd, size, writable=True)
    os.close(fd)


def test_a_slice_in_use_outlives_close() -> None:
    fd = create_memory("test", PAGE_SIZE)
    memory = map_memory(fd, PAGE_SIZE, writable=True)
    os.close(fd)
    memory.bytes[:5] = b"hello"
    used = memory.bytes[:5]
    assert not memory.close()
    assert bytes(used) == b"hello"


def test_pages_given_back_read_as_zeros() -> None:
    fd = create_memory("test", 2 * PAGE_SIZE)
    memory = map_memory(fd, 2 * PAGE_SIZE, writable=True)
    memory.words[0] = memory.words[PAGE_SIZE // 8] = 7
    blocks = os.fstat(fd).st_blocks
    memory.give_back(0, PAGE_SIZE)
    assert memory.words[0] == 0
    assert memory.words[PAGE_SIZE // 8] == 7
    memory.give_back(0, PAGE_SIZE)
    assert os.fstat(fd).st_blocks < blocks
    os.close(fd)
    assert memory.close()
