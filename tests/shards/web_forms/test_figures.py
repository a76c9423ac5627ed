import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from borzoi.quantities import parse_size
from borzoi.shards.web_forms.figures import float32, size_text


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (1, "1 B"),
        (999, "999 B"),
        (1000, "1 KB"),
        (1001, "1.001 KB"),
        (1024, "1 KiB"),
        (69_092, "69.092 KB"),
        (150_949_888, "147412 KiB"),
        (1536, "1.5 KiB"),
        (1 << 40, "1 TiB"),
        (10**12, "1 TB"),
        (2**64 - 1, "18446744073709551.615 KB"),
    ],
)
def test_sizes_are_exact_texts(size: int, text: str) -> None:
    assert size_text(size) == text


@given(st.integers(0, 2**63))
def test_a_size_reads_back(size: int) -> None:
    assert parse_size(size_text(size)) == size


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_a_float_of_32_bits_is_written_short(value: float) -> None:
    assert struct.pack("<f", float32(value)) == struct.pack("<f", value)
    assert len(repr(float32(value))) <= len(repr(value))


def test_a_short_float() -> None:
    (stored,) = struct.unpack("<f", struct.pack("<f", 0.1))
    assert float32(stored) == 0.1
