"""The memory for decompressed blocks: what is kept, what is counted, and when there is no more."""

from borzoi.storage.plain_blocks import BlockKey, PlainBlocks

KEY = BlockKey(0, 0)


def test_a_block_is_found_while_somebody_holds_it_or_it_was_used_lately() -> None:
    blocks = PlainBlocks(4000)  # 1,000 of them for blocks that nobody holds
    held = memoryview(blocks.put(KEY, bytes(900)))
    blocks.put(BlockKey(0, 1), bytes(900))
    assert blocks.get(KEY) is not None
    assert blocks.size == 1800
    blocks.put(BlockKey(0, 2), bytes(900))
    assert blocks.get(BlockKey(0, 1)) is None
    del held
    assert blocks.get(KEY) is None
    assert blocks.size == 900


def test_a_small_piece_does_not_hold_its_block() -> None:
    blocks = PlainBlocks(4000)
    block = blocks.put(KEY, bytes(range(200)) * 5)
    small = blocks.piece(block, 10, 20)
    large = blocks.piece(block, 0, 600)
    assert (bytes(small), large.nbytes) == (bytes(range(10, 20)), 600)
    assert small.readonly
    assert large.readonly
    assert blocks.size == 1010
    blocks.let_go(0)
    del block
    assert blocks.size == 1010  # `large` holds it
    del large
    assert blocks.size == 10
    del small
    assert blocks.size == 0


def test_there_is_room_up_to_the_bound_and_for_one_that_is_larger() -> None:
    blocks = PlainBlocks(1000)
    assert blocks.reserve(600)
    assert not blocks.reserve(401)
    assert blocks.reserve(400)
    blocks.release(1000)
    held = memoryview(blocks.put(KEY, bytes(700)))
    assert not blocks.reserve(400)
    blocks.put(BlockKey(0, 1), bytes(200))  # nobody holds it: it makes room
    assert blocks.reserve(300)
    blocks.release(300)
    assert not blocks.reserve(5000)
    del held
    blocks.let_go(0)
    assert blocks.reserve(5000), "one that is larger than all is let in alone"
    assert not blocks.reserve(1)


def test_what_is_wrong_with_a_block_is_remembered_until_its_file_goes() -> None:
    blocks = PlainBlocks(1000)
    number = blocks.new_file()
    assert number != blocks.new_file()
    key = BlockKey(number, 3)
    blocks.note_damage(key, "wrong checksum")
    assert blocks.damage(key) == "wrong checksum"
    blocks.let_go(number)
    assert blocks.damage(key) is None
