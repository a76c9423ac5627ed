"""Random bytes for message ids: as many as asked for, never the same, from the seed alone."""

from typing import Any

import pytest

SEED = bytes(range(1, 33))


@pytest.mark.parametrize("size", [0, 1, 7, 8, 9, 16, 1000 * 16, 4099])
def test_as_many_bytes_as_asked_for(loops: Any, size: int) -> None:
    assert len(loops.RandomIds(SEED)(size)) == size


def test_ids_do_not_repeat(loops: Any) -> None:
    ids = loops.RandomIds(SEED)
    found = {ids(16) for _ in range(1000)}
    many = ids(16 * 1000)
    found |= {many[at : at + 16] for at in range(0, len(many), 16)}
    assert len(found) == 2000


def test_the_seed_decides(loops: Any) -> None:
    assert loops.RandomIds(SEED)(64) == loops.RandomIds(SEED)(64)
    assert loops.RandomIds(SEED)(64) != loops.RandomIds(SEED[::-1])(64)


def test_every_bit_is_sometimes_set_and_sometimes_not(loops: Any) -> None:
    ids = loops.RandomIds(SEED)
    ones = zeros = 0
    for _ in range(200):
        number = int.from_bytes(ids(16), "little")
        ones |= number
        zeros |= ~number
    whole = (1 << 128) - 1
    assert ones == whole
    assert zeros & whole == whole


@pytest.mark.parametrize("seed", [b"", bytes(32), b"x" * 31, b"x" * 33])
def test_a_bad_seed_is_refused(loops: Any, seed: bytes) -> None:
    with pytest.raises(ValueError, match="32 bytes"):
        loops.RandomIds(seed)
