"""Control memory: the drawn layout, the label that is checked, the heartbeat."""

import os
import time
from itertools import pairwise

import pytest

from borzoi.router.control import (
    MAGIC,
    SHARDS_MAX,
    ControlLayout,
    ControlMismatch,
    OwnControl,
    SharedControl,
    create_control,
)
from borzoi.router.memory import LINE_WORDS, PAGE_SIZE, create_memory, map_memory

LAYOUT = ControlLayout(3, 8)


def test_nothing_overlaps_and_every_counter_has_its_own_line() -> None:
    layout = ControlLayout(3)
    parts: list[tuple[int, int]] = [(0, 6), (LINE_WORDS, 1)]
    for peer in range(3):
        parts += [
            (layout.request_tail(peer), LINE_WORDS),
            (layout.reply_tail(peer), LINE_WORDS),
            (layout.request_head(peer), LINE_WORDS),
            (layout.reply_head(peer), LINE_WORDS),
            (layout.request_slots(peer), layout.ring_words),
            (layout.reply_slots(peer), layout.ring_words),
        ]
    assert all(start % LINE_WORDS == 0 for start, _ in parts)
    for (start, length), (following, _) in pairwise(parts):
        assert start + length <= following
    assert (parts[-1][0] + parts[-1][1]) * 8 == layout.size
    assert layout.size == PAGE_SIZE + 3 * (PAGE_SIZE + 2 * 4096 * 64)


def test_the_number_of_shards_is_bounded() -> None:
    assert ControlLayout(SHARDS_MAX).size % PAGE_SIZE == 0
    for count in (0, -1, SHARDS_MAX + 1):
        with pytest.raises(ValueError, match="between 1 and"):
            ControlLayout(count)


def test_no_block_for_a_shard_that_does_not_exist() -> None:
    for peer in (-1, 3):
        with pytest.raises(ValueError, match="no shard"):
            LAYOUT.request_tail(peer)
        with pytest.raises(ValueError, match="no shard"):
            create_control(LAYOUT, peer, 1)
    with pytest.raises(ValueError, match="counted from 1"):
        create_control(LAYOUT, 0, 0)


def test_the_label_names_shard_and_life() -> None:
    fd = create_control(LAYOUT, 2, 7)
    words = map_memory(fd, PAGE_SIZE, writable=False).words
    assert list(words[:6]) == [MAGIC, 1, 2, 7, 3, 8]
    control = SharedControl(fd, LAYOUT, 2, 7)
    assert (control.shard, control.generation) == (2, 7)
    assert control.close()
    os.close(fd)


@pytest.mark.parametrize(
    ("word", "name"),
    [
        (0, "magic"),
        (1, "version"),
        (2, "shard"),
        (3, "generation"),
        (4, "shard count"),
        (5, "ring slots"),
    ],
)
def test_every_word_of_the_label_is_checked(word: int, name: str) -> None:
    fd = create_control(LAYOUT, 1, 1)
    memory = map_memory(fd, PAGE_SIZE, writable=True)
    memory.words[word] += 1
    with pytest.raises(ControlMismatch, match=f"shard 1: {name} is"):
        SharedControl(fd, LAYOUT, 1, 1)
    with pytest.raises(ControlMismatch, match=f"shard 1: {name} is"):
        OwnControl(fd, LAYOUT, 1, 1)
    memory.close()
    os.close(fd)


def test_another_size_or_plain_memory_is_refused() -> None:
    fd = create_control(LAYOUT, 1, 1)
    with pytest.raises(ControlMismatch, match="bytes instead of"):
        SharedControl(fd, ControlLayout(4, 8), 1, 1)
    os.close(fd)
    fd = create_memory("test", LAYOUT.size)
    with pytest.raises(ControlMismatch, match="magic"):
        SharedControl(fd, LAYOUT, 1, 1)
    os.close(fd)


def test_heartbeat_is_seen_by_those_who_watch() -> None:
    fd = create_control(LAYOUT, 0, 1)
    own, watched = OwnControl(fd, LAYOUT, 0, 1), SharedControl(fd, LAYOUT, 0, 1)
    os.close(fd)
    assert watched.last_beat() == 0
    now_ns = time.monotonic_ns()
    own.beat(now_ns)
    assert watched.last_beat() == own.last_beat() == now_ns
    assert own.close()
    assert watched.close()


def test_the_owner_tells_how_far_its_stop_has_got() -> None:
    fd = create_control(LAYOUT, 0, 1)
    own, watched = OwnControl(fd, LAYOUT, 0, 1), SharedControl(fd, LAYOUT, 0, 1)
    os.close(fd)
    assert watched.left_to_stop() is None
    own.tell_left(7, 9)
    assert watched.left_to_stop() == (7, 9)
    own.tell_left(0, 0)
    assert watched.left_to_stop() == (0, 0)
    assert own.close()
    assert watched.close()


def test_only_the_owner_can_write() -> None:
    fd = create_control(LAYOUT, 0, 1)
    control = SharedControl(fd, LAYOUT, 0, 1)
    os.close(fd)
    assert not hasattr(control, "beat")
    with pytest.raises(TypeError):
        control.memory.words[LINE_WORDS] = 1
    assert control.close()
