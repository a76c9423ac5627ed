"""Decompressed blocks: which are found again, and when they make room."""

from borzoi.storage.copy_memory import Copy, CopyMemory
from borzoi.storage.plain_blocks import BlockKey, PlainBlocks

KEY = BlockKey(0, 0)


def test_a_block_is_found_while_it_is_held_or_was_used_lately() -> None:
    memory = CopyMemory(4000)  # 1,000 of them for blocks that are not held
    blocks = PlainBlocks(memory)
    held = memoryview(blocks.put(KEY, Copy(900)))
    blocks.put(BlockKey(0, 1), Copy(900))
    assert blocks.get(KEY) is not None
    assert memory.size == 1800
    blocks.put(BlockKey(0, 2), Copy(900))
    assert blocks.get(BlockKey(0, 1)) is None
    del held
    assert blocks.get(KEY) is None
    assert memory.size == 900


def test_a_small_piece_does_not_hold_its_block() -> None:
    memory = CopyMemory(4000)
    blocks = PlainBlocks(memory)
    block = blocks.put(KEY, Copy(bytes(range(200)) * 5))
    small = blocks.piece(block, 10, 20)
    large = blocks.piece(block, 0, 600)
    assert (bytes(small), large.nbytes) == (bytes(range(10, 20)), 600)
    assert small.readonly
    assert large.readonly
    assert memory.size == 1010
    blocks.let_go(0)
    del block
    assert memory.size == 1010  # `large` holds it
    del large
    assert memory.size == 10
    del small
    assert memory.size == 0


def test_blocks_that_are_not_held_make_room() -> None:
    memory = CopyMemory(1000)
    blocks = PlainBlocks(memory)
    held = memoryview(blocks.put(KEY, Copy(240)))
    blocks.put(BlockKey(0, 1), Copy(230))
    assert memory.size == 470
    memory.reading_for = "user 1"
    assert memory.reserve(700), "the one that is not held goes"
    assert memory.size == 240
    assert blocks.get(BlockKey(0, 1)) is None
    assert blocks.get(KEY) is not None
    memory.release(700, "user 1")
    assert not memory.reserve(800)
    del held


def test_what_is_wrong_with_a_block_is_remembered_until_its_file_goes() -> None:
    blocks = PlainBlocks(CopyMemory(1000))
    number = blocks.new_file()
    assert number != blocks.new_file()
    key = BlockKey(number, 3)
    blocks.note_damage(key, "wrong checksum")
    assert blocks.damage(key) == "wrong checksum"
    blocks.let_go(number)
    assert blocks.damage(key) is None
