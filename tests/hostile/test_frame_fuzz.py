"""A slice of the frame fuzz for every run of the suite, and everything that ever failed."""

import struct
import tracemalloc
from pathlib import Path
from typing import Final

import pytest

from borzoi.protocol.codes import Code
from borzoi.protocol.framing import encode_request
from borzoi.protocol.generations import GENERATIONS
from tests.hostile.frame_fuzz import run, seed_of, try_bytes, try_frame
from tests.hostile.frames_of import FRAMES_OF
from tests.hostile.mutation import Mutant, mutant
from tests.hostile.seeds import Seed, read_seeds, seed_files, write_seeds

FRAMES: Final = 100_000
MEASURED_FRAMES: Final = 2_000
# Objects around the bytes: a decoded permission, a message object, an exception with its text.
OBJECTS_SIZE_MAX: Final = 16 * 1024


@pytest.mark.no_cover
@pytest.mark.slow
@pytest.mark.parametrize("generation", FRAMES_OF)
def test_only_declared_errors_come_out(generation: str) -> None:
    outcome = run(0, FRAMES, GENERATIONS[generation])
    # The mutants are neither all nonsense nor all harmless.
    assert FRAMES // 20 < outcome.accepted < FRAMES // 2


def test_a_number_always_makes_the_same_frame() -> None:
    assert [mutant(number) for number in range(100)] == [mutant(number) for number in range(100)]
    assert len({mutant(number) for number in range(1000)}) > 800


def test_what_once_failed() -> None:
    for path in seed_files():
        for seed in read_seeds(path):
            try_frame(seed)


def test_seeds_are_kept_as_they_were(tmp_path: Path) -> None:
    kept = [Seed("request", mutant(1)), Seed("answer", Mutant(1, b""))]
    path = write_seeds("some", "ValueError: two\nlines", kept, tmp_path)
    assert read_seeds(path) == kept
    assert seed_files(tmp_path) == [path]


def test_bytes_that_are_no_frame_at_all() -> None:
    for number in range(5_000):
        data = bytearray(mutant(number).frame)
        struct.pack_into("<I", data, 0, (0, 3, len(data) - 5, len(data) + 1, 2**32 - 1)[number % 5])
        try_bytes(bytes(data))
        try_bytes(bytes(data[: number % 13]))


@pytest.mark.slow
def test_no_decoder_allocates_more_than_twice_its_frame() -> None:
    large = [
        encode_request(code, payload + bytes(500_000))
        for code in sorted(Code)
        for payload in (b"", b"\xff" * 32, bytes.fromhex("0101040000000001"))
    ]
    tracemalloc.start()
    try:
        for data in (*(seed_of(number).mutant.frame for number in range(MEASURED_FRAMES)), *large):
            before, _ = tracemalloc.get_traced_memory()
            tracemalloc.reset_peak()
            try_bytes(data)
            _, peak = tracemalloc.get_traced_memory()
            # One copy is the test's own: the receive buffer.
            assert peak - before <= 3 * len(data) + OBJECTS_SIZE_MAX, data[:100].hex()
    finally:
        tracemalloc.stop()
