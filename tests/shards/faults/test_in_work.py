"""The record of a request, as the supervisor reads it after a death; whatever is in there."""

import os
import random
from typing import Final

import pytest

from borzoi.protocol.codes import Code
from borzoi.protocol.framing import encode_request
from borzoi.router.control import ControlLayout, OwnControl, SharedControl, create_control
from borzoi.router.memory import WORD_SIZE, create_memory
from borzoi.shards.faults.in_work import (
    HEAD_SIZE_MAX,
    MEMORY_SIZE,
    REQUEST,
    InWork,
    RequestInWork,
    read_in_work,
    user_bits,
)

ARENA_SIZE: Final = 1 << 16


def test_it_fits_into_the_control_memory_and_is_seen_from_outside() -> None:
    layout = ControlLayout(2)
    fd = create_control(layout, 1, 1)
    own, theirs = OwnControl(fd, layout, 1, 1), SharedControl(fd, layout, 1, 1)
    os.close(fd)
    assert own.in_work.nbytes >= MEMORY_SIZE
    own.beat(77)
    in_work = InWork(own.in_work)
    payload = bytes(range(256)) * 20
    in_work.copy(Code.GET_STREAM, memoryview(payload), user_bits(None))
    assert read_in_work(theirs.in_work, -1, 0) == RequestInWork(
        Code.GET_STREAM, len(payload), payload[:HEAD_SIZE_MAX], None
    )
    assert own.last_beat() == 77
    in_work.copy(Code.GET_STREAM, memoryview(b""), user_bits(0))
    assert read_in_work(theirs.in_work, -1, 0) == RequestInWork(Code.GET_STREAM, 0, b"", 0)
    in_work.words[REQUEST] = 0
    assert read_in_work(theirs.in_work, -1, 0) is None


@pytest.mark.parametrize("size", [0, 1, HEAD_SIZE_MAX - 1, HEAD_SIZE_MAX, HEAD_SIZE_MAX + 1])
def test_a_request_in_the_arena(size: int) -> None:
    payload = os.urandom(size)
    arena_fd = create_memory("arena", ARENA_SIZE)
    os.pwrite(arena_fd, encode_request(Code.POLL_MESSAGES, payload), 1000)
    in_work = InWork()
    in_work.words[REQUEST] = 1008 + user_bits(3)
    assert read_in_work(in_work.words, arena_fd, ARENA_SIZE) == RequestInWork(
        Code.POLL_MESSAGES, size, payload[:HEAD_SIZE_MAX], 3
    )
    os.close(arena_fd)


def test_nothing_in_it_is_believed() -> None:
    chance = random.Random(1)
    arena_fd = create_memory("arena", ARENA_SIZE)
    os.pwrite(arena_fd, chance.randbytes(ARENA_SIZE), 0)
    in_work = InWork()
    for number in range(3000):
        for at in range(MEMORY_SIZE // WORD_SIZE):
            in_work.words[at] = chance.getrandbits(64)
        places = (1, 2, 8, 9, ARENA_SIZE - 1, ARENA_SIZE, ARENA_SIZE + 1, 2**64 - 1)
        in_work.words[REQUEST] = (
            chance.choice(places) if number % 2 else chance.randrange(ARENA_SIZE + 100)
        )
        found = read_in_work(in_work.words, arena_fd, ARENA_SIZE)
        assert found is None or len(found.head) <= min(found.length, HEAD_SIZE_MAX)
    os.close(arena_fd)
