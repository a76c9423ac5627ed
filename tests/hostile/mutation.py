"""Frames that are almost right: the golden ones, changed in one of a few nasty ways.

A number makes a frame: the same number always makes the same one, so a failing number is enough
to find it again, as long as this file and the golden frames stay as they are. That is why
failures are stored as bytes (seeds.py).
"""

import random
import struct
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from borzoi.protocol.framing import encode_request
from tests.protocol.values import Vector, vectors

EXTREMES: Final = (0, 1, 2**7, 2**8 - 1, 2**15, 2**16 - 1, 2**31 - 1, 2**31, 2**32 - 1, 2**64 - 1)
CHANGES_MAX: Final = 3
GROWTH_MAX: Final = 300


class Mutant(NamedTuple):
    """A request whose payload was tampered with; its length field is right."""

    code: int
    payload: bytes

    @property
    def frame(self) -> bytes:
        return encode_request(self.code, self.payload)


def flip_bits(chance: random.Random, payload: bytearray) -> None:
    for _ in range(chance.randint(1, 4)):
        if payload:
            payload[chance.randrange(len(payload))] ^= 1 << chance.randrange(8)


def set_byte(chance: random.Random, payload: bytearray) -> None:
    """Most lengths and kinds are single bytes."""
    if payload:
        payload[chance.randrange(len(payload))] = chance.choice((0, 1, 2, 3, 4, 127, 128, 255))


def set_number(chance: random.Random, payload: bytearray) -> None:
    """An extreme number, of any width, anywhere."""
    width = chance.choice((1, 2, 4, 4, 8))
    number = chance.choice(EXTREMES) & ((1 << 8 * width) - 1)
    if len(payload) >= width:
        at = chance.randrange(len(payload) - width + 1)
        payload[at : at + width] = number.to_bytes(width, "little")


def shift_number(chance: random.Random, payload: bytearray) -> None:
    """A number that is off by a little: the next count, one byte more."""
    if len(payload) >= 4:
        at = chance.randrange(len(payload) - 3)
        (number,) = struct.unpack_from("<I", payload, at)
        shifted = (number + chance.choice((-64, -16, -2, -1, 1, 2, 16, 64))) & 0xFFFFFFFF
        struct.pack_into("<I", payload, at, shifted)


def cut_end(chance: random.Random, payload: bytearray) -> None:
    if payload:
        del payload[chance.randrange(len(payload)) :]


def cut_middle(chance: random.Random, payload: bytearray) -> None:
    if payload:
        at = chance.randrange(len(payload))
        del payload[at : at + chance.randint(1, 20)]


def insert(chance: random.Random, payload: bytearray) -> None:
    at = chance.randint(0, len(payload))
    payload[at:at] = chance.randbytes(chance.randint(1, GROWTH_MAX))


def repeat(chance: random.Random, payload: bytearray) -> None:
    if payload:
        start = chance.randrange(len(payload))
        piece = payload[start : start + chance.randint(1, 80)]
        payload[start:start] = piece * chance.randint(1, 3)


def splice(chance: random.Random, payload: bytearray) -> None:
    """The rest comes from another frame."""
    other = chance.choice(CORPUS).payload
    start = chance.randint(0, len(other))
    del payload[chance.randint(0, len(payload)) :]
    payload += other[start:]


CHANGES: Final[Sequence[Callable[[random.Random, bytearray], None]]] = (
    flip_bits,
    flip_bits,
    set_byte,
    set_number,
    set_number,
    shift_number,
    cut_end,
    cut_middle,
    insert,
    repeat,
    splice,
)


def requests_of(found: Sequence[Vector]) -> list[Mutant]:
    return [Mutant(vector.code, vector.request) for vector in found]


CORPUS: Final = requests_of(vectors())
ANSWERS: Final = [Mutant(one.code, one.response) for one in vectors() if one.response]
CODES: Final = sorted({mutant.code for mutant in CORPUS})


def mutant(number: int, corpus: Sequence[Mutant] = CORPUS) -> Mutant:
    """The frame that belongs to a number."""
    chance = random.Random(number)
    code, payload = chance.choice(corpus)
    changed = bytearray(payload)
    if chance.random() < 0.05:
        code = chance.choice(CODES)
    for _ in range(chance.randint(1, CHANGES_MAX)):
        chance.choice(CHANGES)(chance, changed)
    return Mutant(code, bytes(changed))
