import struct
from typing import Final

import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from borzoi.cluster.slots import (
    CHECKSUM,
    DATA_SIZE_MIN,
    FENCE_SIZE,
    META_LANE,
    WITH_BODY,
    DataSlot,
    Entry,
    EntryKind,
    FenceSlot,
    Slot,
    SlotDamaged,
    decode_slot,
    encode_data,
    encode_fence,
)

WRITER: Final = bytes(range(16))
U32: Final = st.integers(0, 2**32 - 1)
U64: Final = st.integers(0, 2**64 - 1)

FENCE: Final = FenceSlot(lane=3, slot=9, writer=WRITER, next=17)
FENCE_HEX: Final = (
    "425a4c414e453031 01 01 0000 03000000 0900000000000000 0900000000000000"
    "000102030405060708090a0b0c0d0e0f 1100000000000000 00000000 00000000 25a006dc27998961"
)
GROUP: Final = DataSlot(
    lane=3,
    slot=17,
    fence=9,
    writer=WRITER,
    entries=(
        Entry(EntryKind.BATCH, 5, 6, first=7, number=2, segment=4, position=300, body=b"ab"),
        Entry(EntryKind.OFFSET_STORED, 5, 6, first=7, number=11, consumer_kind=2),
    ),
)
GROUP_HEX: Final = (
    "425a4c414e453031 02 01 0000 03000000 1100000000000000 0900000000000000"
    "000102030405060708090a0b0c0d0e0f 0000000000000000 02000000 00000000"
    "01 00 0000 02000000 0500000000000000 0600000000000000 0700000000000000 0400000000000000"
    "2c010000 02000000 0000000000000000"
    "02 02 0000 0b000000 0500000000000000 0600000000000000 0700000000000000 0000000000000000"
    "00000000 00000000 0000000000000000"
    "6162 23d824d2d05fb711"
)
METADATA: Final = DataSlot(
    META_LANE, 2, 1, WRITER, (Entry(EntryKind.METADATA, first=1, body=b"entry"),)
)
METADATA_HEX: Final = (
    "425a4c414e453031 02 01 0000 ffffffff 0200000000000000 0100000000000000"
    "000102030405060708090a0b0c0d0e0f 0000000000000000 01000000 00000000"
    "06 00 0000 00000000 0000000000000000 0000000000000000 0100000000000000 0000000000000000"
    "00000000 05000000 0000000000000000"
    "656e747279 00a5c284ed3be99e"
)
VECTORS: Final[list[tuple[Slot, str]]] = [
    (FENCE, FENCE_HEX),
    (GROUP, GROUP_HEX),
    (METADATA, METADATA_HEX),
]


@st.composite
def entries(draw: st.DrawFn) -> Entry:
    kind = draw(st.sampled_from(EntryKind))
    body = draw(st.binary(max_size=40)) if kind in WITH_BODY else b""
    numbers = {name: draw(U64) for name in ("namespace", "birth", "first", "segment", "tag")}
    return Entry(
        kind,
        number=draw(U32),
        position=draw(U32),
        consumer_kind=draw(st.integers(0, 255)),
        body=body,
        **numbers,
    )


@st.composite
def groups(draw: st.DrawFn) -> DataSlot:
    slot = draw(st.integers(1, 2**64 - 1))
    rows = draw(st.lists(entries(), min_size=1, max_size=5))
    fence = draw(st.integers(0, slot - 1))
    return DataSlot(draw(U32), slot, fence, draw(st.binary(min_size=16, max_size=16)), tuple(rows))


def encoded(slot: Slot) -> bytes:
    return encode_fence(slot) if isinstance(slot, FenceSlot) else encode_data(slot)


def sealed(body: bytes) -> bytes:
    return body + CHECKSUM.pack(xxhash.xxh3_64_intdigest(body))


@pytest.mark.parametrize(("slot", "text"), VECTORS)
def test_the_bytes_are_these(slot: Slot, text: str) -> None:
    assert encoded(slot).hex() == text.replace(" ", "")
    assert decode_slot(bytes.fromhex(text)) == slot


def test_a_listing_tells_fences_from_data() -> None:
    assert len(encoded(FENCE)) == FENCE_SIZE == 72
    assert len(encoded(DataSlot(0, 2, 1, WRITER, (Entry(EntryKind.RELEASED),)))) == 128
    assert DATA_SIZE_MIN == 128


@pytest.mark.parametrize(("slot", "text"), VECTORS)
def test_a_slot_that_is_cut_anywhere_is_damaged(slot: Slot, text: str) -> None:
    whole = bytes.fromhex(text)
    for size in range(len(whole)):
        with pytest.raises(SlotDamaged):
            decode_slot(whole[:size])
    with pytest.raises(SlotDamaged):
        decode_slot(whole + b"\0")


@pytest.mark.parametrize(("slot", "text"), VECTORS)
def test_a_slot_with_one_bit_flipped_is_damaged(slot: Slot, text: str) -> None:
    whole = bytearray.fromhex(text.replace(" ", ""))
    for bit in range(len(whole) * 8):
        whole[bit // 8] ^= 1 << bit % 8
        with pytest.raises(SlotDamaged):
            decode_slot(bytes(whole))
        whole[bit // 8] ^= 1 << bit % 8


@pytest.mark.parametrize(("slot", "text"), VECTORS)
@pytest.mark.parametrize("value", [0, 1, 0x7F, 0xFF])
def test_a_byte_that_its_writer_chose_is_damage_or_another_slot(
    slot: Slot, text: str, value: int
) -> None:
    """With a right checksum: what decodes is what encodes to these bytes."""
    body = bytearray.fromhex(text.replace(" ", ""))[:-8]
    for place in range(len(body)):
        changed = bytes(body[:place]) + bytes([value]) + bytes(body[place + 1 :])
        try:
            found = decode_slot(sealed(changed))
        except SlotDamaged:
            continue
        assert encoded(found) == sealed(changed)


@given(groups())
def test_any_group_comes_back(group: DataSlot) -> None:
    assert decode_slot(encode_data(group)) == group


@given(st.binary(max_size=300))
def test_garbage_is_damaged(garbage: bytes) -> None:
    with pytest.raises(SlotDamaged):
        decode_slot(garbage)
    with pytest.raises(SlotDamaged):
        decode_slot(sealed(garbage))


def test_a_count_that_does_not_fit_is_found_at_once() -> None:
    body = bytearray(encoded(GROUP)[:-8])
    struct.pack_into("<I", body, 56, 2**32 - 1)
    with pytest.raises(SlotDamaged, match="do not fit"):
        decode_slot(sealed(bytes(body)))
