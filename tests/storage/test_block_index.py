"""The file of a compressed segment: round trips, every cut, every bit."""

import pytest

from borzoi.storage.block_index import (
    BLOCK_HEADER,
    FOOTER,
    HEADER,
    BlockDamaged,
    BlockIndex,
    BlockIndexDamaged,
    SegmentFacts,
    decode_block,
    encode_block,
    encode_header,
    encode_tail,
    read_block_index,
    walk_blocks,
)
from borzoi.storage.codecs import Codec, NotDecompressed, compress, decompress
from borzoi.storage.segment_form import HEADER_SIZE

FIRST_OFFSET = 1234
PLAIN = [b"a" * 300, bytes(range(256)), b"tail " * 20]
CODECS = [Codec.GZIP, Codec.LZ4, Codec.ZSTD]
FACTS = SegmentFacts(11, 100, 200, 0xABCDEF)


def build(codec: Codec) -> tuple[bytes, BlockIndex]:
    data = encode_header(FIRST_OFFSET)
    plain_ends, file_ends, position = [], [], 0
    for plain in PLAIN:
        data += encode_block(codec, position, plain)
        position += len(plain)
        plain_ends.append(position)
        file_ends.append(len(data))
    index = BlockIndex(plain_ends, file_ends, FACTS)
    return data + encode_tail(index, FIRST_OFFSET), index


def read_index(data: bytes) -> BlockIndex:
    return read_block_index(lambda size, at: data[at : at + size], len(data), FIRST_OFFSET)


def walk(data: bytes) -> BlockIndex:
    return walk_blocks(lambda size, at: data[at : at + size], len(data))


def block(data: bytes, index: BlockIndex, number: int) -> bytes:
    place = index.place(number)
    return decode_block(data[place.file_start : place.file_end], place)


@pytest.mark.parametrize("codec", CODECS)
def test_what_was_written_is_read(codec: Codec) -> None:
    data, index = build(codec)
    assert read_index(data) == index
    assert [block(data, index, number) for number in range(3)] == PLAIN
    assert index.plain_size == sum(map(len, PLAIN))
    # What does not shrink is stored as it is: a file is never much larger than its messages.
    assert index.place(1).file_end - index.place(1).file_start <= BLOCK_HEADER.size + 256


def test_positions_lead_to_their_blocks() -> None:
    _, index = build(Codec.ZSTD)
    assert [index.number_of(at) for at in (0, 299, 300, 555, 556, 655)] == [0, 0, 1, 1, 2, 2]
    assert index.numbers_of(299, 301) == range(2)
    assert index.numbers_of(300, 556) == range(1, 2)


def test_a_file_cut_anywhere_has_no_block_index() -> None:
    data, index = build(Codec.ZSTD)
    for size in range(len(data)):
        with pytest.raises(BlockIndexDamaged):
            read_index(data[:size])
        walked = walk(data[:size])
        whole = [end for end in index.file_ends if end <= size]
        assert walked.file_ends[: len(whole)] == whole
        assert [block(data, walked, number) for number in range(len(whole))] == PLAIN[: len(whole)]


@pytest.mark.parametrize("codec", CODECS)
def test_every_bit_is_covered(codec: Codec) -> None:
    """A flip is seen, by the block it is in or by the block index; others are not touched."""
    data, index = build(codec)
    blocks_end = index.file_ends[-1]
    for bit in range(len(data) * 8):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        damaged = bytes(flipped)
        if bit // 8 >= blocks_end:
            with pytest.raises(BlockIndexDamaged):
                read_index(damaged)
            # All blocks are found without it.
            walked = walk(damaged)
            assert walked.plain_ends[:3] == index.plain_ends
            assert [block(damaged, walked, number) for number in range(3)] == PLAIN
            continue
        assert read_index(damaged) == index
        hit = next(number for number in range(3) if bit // 8 < index.file_ends[number])
        for number in range(3):
            if number == hit and bit // 8 >= HEADER.size:
                with pytest.raises(BlockDamaged):
                    block(damaged, index, number)
            else:
                assert block(damaged, index, number) == PLAIN[number]


def test_a_block_of_another_place_is_refused() -> None:
    data, index = build(Codec.LZ4)
    place = index.place(2)
    with pytest.raises(BlockDamaged, match="another block"):
        decode_block(
            data[place.file_start : place.file_end],
            place._replace(plain_start=place.plain_start - 1, plain_end=place.plain_end - 1),
        )


def test_a_footer_that_promises_more_than_there_is_is_not_read() -> None:
    data, _ = build(Codec.ZSTD)
    asked = []
    fields = list(FOOTER.unpack(data[-FOOTER.size :]))
    fields[1] = 0xFFFF_FFFF
    hostile = data[: -FOOTER.size] + FOOTER.pack(*fields)

    def read(size: int, at: int) -> bytes:
        asked.append(size)
        return hostile[at : at + size]

    with pytest.raises(BlockIndexDamaged, match="blocks in"):
        read_block_index(read, len(hostile), FIRST_OFFSET)
    assert asked == [HEADER_SIZE, FOOTER.size]


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("promised", [1, 1000, 10_000_000])
def test_a_bomb_is_stopped_at_the_size_that_was_promised(codec: Codec, promised: int) -> None:
    bomb = compress(codec, bytes(20_000_000))
    with pytest.raises(NotDecompressed):
        decompress(codec, bomb, promised)
    assert decompress(codec, bomb, 20_000_000) == bytes(20_000_000)
