"""The envelope: golden bytes both ways, every cut, every flipped bit, and chance."""

from pathlib import Path
from typing import Final

import google_crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st

from borzoi.liftbridge.envelope import (
    ACK,
    HEADER,
    MAGIC,
    PUBLISH,
    Envelope,
    Plain,
    decode_envelope,
    encode_envelope,
)

GOLDEN: Final = Path(__file__).parents[1] / "golden/liftbridge_envelopes.txt"
ROWS: Final = {
    name: (meaning, bytes.fromhex(text))
    for name, meaning, text in (
        line.split()
        for line in GOLDEN.read_text().splitlines()
        if line and not line.startswith("#")
    )
}
WELL_FORMED: Final = [name for name, (meaning, _) in ROWS.items() if meaning in ("publish", "TYPE")]


def opened(data: bytes) -> Envelope:
    envelope = decode_envelope(data)
    assert isinstance(envelope, Envelope)
    return envelope


def test_the_checksum_is_castagnoli() -> None:
    assert google_crc32c.value(b"123456789") == 0xE3069283


def test_all_vectors_are_there() -> None:
    assert len(ROWS) == 20


@pytest.mark.parametrize("name", WELL_FORMED)
def test_golden_envelopes_both_ways(name: str) -> None:
    data = ROWS[name][1]
    envelope = opened(data)
    assert envelope.message_type == (PUBLISH if name.startswith("P") else ACK)
    payload = bytes(envelope.payload)
    assert encode_envelope(envelope.message_type, payload, checked=data[6] == 1) == data


@pytest.mark.parametrize(("plain", "checked"), [("P1", "P2"), ("P3", "P4"), ("P7", "P8")])
def test_a_checksum_changes_nothing_of_the_payload(plain: str, checked: str) -> None:
    assert opened(ROWS[plain][1]).payload == opened(ROWS[checked][1]).payload


@pytest.mark.parametrize("name", ["N1", "N2", "N3", "N4", "N7"])
def test_golden_bytes_that_are_no_envelope(name: str) -> None:
    meaning, data = ROWS[name]
    assert decode_envelope(data) is Plain[meaning]


@pytest.mark.parametrize("name", ROWS)
def test_every_cut(name: str) -> None:
    """What is cut is no envelope, or, without a checksum, one with a shorter payload."""
    data = ROWS[name][1]
    for end in range(len(data)):
        cut = decode_envelope(data[:end])
        if isinstance(cut, Envelope):
            assert not data[6] & 1
            assert bytes(cut.payload) == data[HEADER.size : end]
        elif end < HEADER.size:
            assert cut is Plain.UNMARKED


@pytest.mark.parametrize("name", ["P2", "P4", "P6", "P8", "A2", "A5"])
def test_every_flipped_bit_of_a_checked_envelope(name: str) -> None:
    """The payload is the same or there is none: no flipped bit is taken for a message."""
    data = ROWS[name][1]
    whole = opened(data)
    for bit in range(8 * len(data)):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        got = decode_envelope(bytes(flipped))
        if isinstance(got, Envelope):
            assert got.payload == whole.payload
            # Flags without a meaning, the flag of the checksum itself, and the message type.
            assert bit // 8 in (6, 7)


@pytest.mark.parametrize("name", ["P1", "P3", "P5", "P7", "A1"])
def test_every_flipped_bit_of_an_unchecked_envelope(name: str) -> None:
    data = ROWS[name][1]
    for bit in range(8 * len(data)):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        got = decode_envelope(bytes(flipped))
        if bit < 32:
            assert got is Plain.UNMARKED
        elif bit < 40:
            assert got is Plain.VERSION
        elif isinstance(got, Envelope):
            assert bytes(got.payload) == bytes(flipped[flipped[5] :])


@given(rest=st.binary(max_size=300))
def test_anything_behind_the_magic_number(rest: bytes) -> None:
    data = MAGIC + rest
    got = decode_envelope(data)
    if isinstance(got, Envelope):
        assert rest[0] == 0
        assert HEADER.size <= rest[1] <= len(data)
        assert bytes(got.payload) == data[rest[1] :]
        assert got.message_type == rest[3]


@given(data=st.binary(max_size=40))
def test_anything_at_all(data: bytes) -> None:
    got = decode_envelope(data)
    if not data.startswith(MAGIC):
        assert got is Plain.UNMARKED


@given(payload=st.binary(max_size=2000), kind=st.integers(0, 255), checked=st.booleans())
def test_what_is_encoded_is_decoded(payload: bytes, kind: int, checked: bool) -> None:
    envelope = opened(encode_envelope(kind, payload, checked=checked))
    assert (envelope.message_type, bytes(envelope.payload)) == (kind, payload)


def test_a_longer_header_without_a_checksum_is_a_header() -> None:
    data = HEADER.pack(MAGIC, 0, 11, 0, PUBLISH) + b"new" + b"payload"
    assert bytes(opened(data).payload) == b"payload"


def test_a_header_that_is_too_short_is_none() -> None:
    for length in range(HEADER.size):
        assert decode_envelope(HEADER.pack(MAGIC, 0, length, 0, PUBLISH) + b"x") is Plain.HEADER
