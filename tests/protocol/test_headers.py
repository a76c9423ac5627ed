import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from borzoi.protocol.errors import (
    BrokerError,
    InvalidCommand,
    InvalidHeaderKey,
    InvalidHeaderKind,
    InvalidHeaderValue,
)
from borzoi.protocol.headers import (
    HeaderField,
    HeaderKind,
    HeaderScalar,
    decode_user_headers,
    encode_user_headers,
    header_field,
    header_scalar,
    is_header_block,
)
from borzoi.protocol.message import Message

K_IS_7 = "02 01000000 6b 0b 04000000 07000000"

fields = (
    st.binary(min_size=1, max_size=255)
    | st.text(min_size=1, max_size=60)
    | st.booleans()
    | st.integers(-(2**127), 2**127 - 1)
    | st.floats(allow_nan=False)
).map(header_field)


@pytest.mark.slow
@settings(max_examples=30)
@given(st.dictionaries(fields, fields, max_size=4))
def test_round_trip(headers: dict[HeaderField, HeaderField]) -> None:
    block = encode_user_headers(headers)
    assert decode_user_headers(block) == headers
    assert list(decode_user_headers(block)) == list(headers)
    assert is_header_block(memoryview(block))
    if block:
        assert not is_header_block(memoryview(block[:-1]))


@pytest.mark.parametrize(
    ("value", "kind", "data"),
    [
        (b"\0", HeaderKind.RAW, "00"),
        ("k", HeaderKind.STRING, "6b"),
        (True, HeaderKind.BOOL, "01"),
        (-1, HeaderKind.INT8, "ff"),
        (-2, HeaderKind.INT16, "feff"),
        (-2, HeaderKind.INT32, "feffffff"),
        (1, HeaderKind.INT64, "0100000000000000"),
        (-1, HeaderKind.INT128, "ff" * 16),
        (255, HeaderKind.UINT8, "ff"),
        (258, HeaderKind.UINT16, "0201"),
        (7, HeaderKind.UINT32, "07000000"),
        (7, HeaderKind.UINT64, "0700000000000000"),
        (2**127, HeaderKind.UINT128, "00" * 15 + "80"),
        (1.5, HeaderKind.FLOAT32, "0000c03f"),
        (1.5, HeaderKind.FLOAT64, "000000000000f83f"),
    ],
)
def test_kinds(value: HeaderScalar, kind: HeaderKind, data: str) -> None:
    field = header_field(value, kind)
    assert field == (kind, bytes.fromhex(data))
    assert header_scalar(field) == value


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("", None),
        ("a" * 256, None),
        (256, HeaderKind.UINT8),
        (-1, HeaderKind.UINT8),
        (1e300, HeaderKind.FLOAT32),
        ("text", HeaderKind.INT8),
        (1, HeaderKind.BOOL),
        (2**127, None),
    ],
)
def test_values_that_do_not_fit(value: HeaderScalar, kind: HeaderKind | None) -> None:
    with pytest.raises(InvalidHeaderValue):
        header_field(value, kind)


@pytest.mark.parametrize(
    ("block", "error"),
    [
        ("00 01000000 6b 0b 04000000 07000000", InvalidHeaderKind),
        ("02 01000000 6b 10 04000000 07000000", InvalidHeaderKind),
        ("02 00000000 0b 04000000 07000000", InvalidHeaderKey),
        ("0b 01000000 6b 0b 04000000 07000000", InvalidHeaderKey),
        ("02 01000000 6b 0b 03000000 070000", InvalidHeaderValue),
        ("02 01000000 6b", InvalidCommand),
        ("02 01000000 6b 0b 04000000 070000", InvalidCommand),
        ("02 ffffffff 6b", InvalidCommand),
    ],
)
def test_broken_blocks(block: str, error: type[BrokerError]) -> None:
    data = bytes.fromhex(block)
    with pytest.raises(error):
        decode_user_headers(data)
    assert not is_header_block(memoryview(data))
    assert Message(b"x", user_headers=data).headers == {}


def test_fields_of_a_wrong_size_are_not_written() -> None:
    good = header_field("k")
    with pytest.raises(InvalidHeaderKey):
        encode_user_headers({HeaderField(HeaderKind.STRING, b""): good})
    with pytest.raises(InvalidHeaderValue):
        encode_user_headers({good: HeaderField(HeaderKind.INT8, b"12")})


def test_headers_of_a_message() -> None:
    message = Message(b"hi", user_headers=bytes.fromhex(K_IS_7))
    assert message.headers == {header_field("k"): header_field(7, HeaderKind.UINT32)}
