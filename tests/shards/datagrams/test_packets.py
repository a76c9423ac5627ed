"""Headers of datagrams: whose they are, and what is no header at all."""

import os

import pytest

from borzoi.shards.datagrams.packets import (
    CONNECTION_ID_SIZE,
    RESET_SIZE_MAX,
    LongHeader,
    destination_of,
    read_long,
    stateless_reset,
)

DESTINATION = b"d" * 8
SOURCE = b"s" * 20
TOKEN = b"t" * 16


def initial(token: bytes = b"", version: int = 1, first: int = 0xC0) -> bytes:
    ids = bytes((8,)) + DESTINATION + bytes((20,)) + SOURCE
    head = bytes((first,)) + version.to_bytes(4, "big") + ids
    return head + (0x4000 | len(token)).to_bytes(2, "big") + token + bytes(1200)


def test_an_initial() -> None:
    datagram = initial(b"token")
    assert destination_of(datagram) == DESTINATION
    assert read_long(datagram) == LongHeader(1, True, DESTINATION, SOURCE, b"token")


@pytest.mark.parametrize("first", [0xD0, 0xE0, 0xF0, 0x80])
def test_other_long_packets_have_no_token(first: int) -> None:
    found = read_long(initial(b"token", first=first))
    assert found == LongHeader(1, False, DESTINATION, SOURCE, b"")


def test_a_short_packet() -> None:
    assert destination_of(b"\x40" + DESTINATION + b"rest") == DESTINATION
    assert destination_of(b"\x40" + DESTINATION[1:]) == b""
    assert read_long(b"\x40" + DESTINATION + b"rest") is None


def test_every_cut_is_no_header_or_the_same() -> None:
    whole = initial(b"token")[:50]
    for size in range(len(whole)):
        assert read_long(whole[:size]) in (None, read_long(whole))
        assert destination_of(whole[:size]) in (b"", DESTINATION)


@pytest.mark.parametrize("length", [21, 255])
def test_ids_that_are_too_long(length: int) -> None:
    datagram = b"\xc0\0\0\0\1" + bytes((length,)) + bytes(1200)
    assert destination_of(datagram) == b""
    assert read_long(datagram) is None


def test_a_token_that_is_longer_than_its_datagram() -> None:
    assert read_long(initial()[:34] + b"\xbf\xff\xff\xff" + bytes(1200)) is None
    assert read_long(initial()[:34] + b"\xff" * 8 + bytes(1200)) is None


def test_noise_never_raises() -> None:
    for size in range(64):
        for _ in range(50):
            noise = os.urandom(size)
            destination_of(noise)
            read_long(noise)


@pytest.mark.parametrize("size", [22, 40, 44, 1200])
def test_a_reset_is_shorter_than_what_it_answers(size: int) -> None:
    reset = stateless_reset(bytes(size), TOKEN)
    assert reset is not None
    assert len(reset) == min(size - 1, RESET_SIZE_MAX)
    assert reset.endswith(TOKEN)
    assert reset[0] & 0xC0 == 0x40


def test_nothing_answers_what_is_too_short() -> None:
    assert stateless_reset(bytes(21), TOKEN) is None
    assert CONNECTION_ID_SIZE == 8
