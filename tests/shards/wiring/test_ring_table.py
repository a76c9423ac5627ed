"""Every kind of request fits into a ring slot and means the same on the other side."""

from collections.abc import Callable, Iterator
from typing import Any, get_type_hints
from unittest.mock import MagicMock

import pytest

from borzoi.router.ring import SLOT_WORDS
from borzoi.router.target import Target
from borzoi.shards.groups.requests import GroupPoll
from borzoi.shards.partitions.group_cursor import Claim, Watch
from borzoi.shards.ports.requests import ResolvePoll
from borzoi.shards.rings.poll import UNKNOWN_USER, Poll
from borzoi.shards.rings.requests import NO_SLOT, DeathRule, Request
from borzoi.shards.wiring.ring_table import ring_table

WORD_MAX = (1 << 64) - 1
GENERATION = (1 << 32) - 1


def whole_table(*, writing: Any) -> dict[type[Request], Any]:
    before, after = [MagicMock()] * 5, [MagicMock()] * 10
    parts: Any = (*before, writing, *after)
    return ring_table(*parts)


KINDS = sorted(whole_table(writing=MagicMock()), key=lambda kind: kind.KIND)


def samples() -> Iterator[int]:
    """Large words, each another one."""
    number = WORD_MAX
    while True:
        yield number
        number -= 1


def filled(kind: type[Request]) -> Request:
    """A request with large values in all its fields."""
    words = samples()
    group = (1 << 32) - 1
    values: dict[Any, Callable[[], Any]] = {
        Target: lambda: Target(next(words), next(words), NO_SLOT),
        Poll: lambda: Poll(5, next(words), (1 << 32) - 2, 2, group, True, UNKNOWN_USER),
        Claim: lambda: Claim(group, next(words), next(words)),
        Watch: lambda: Watch(next(words), next(words), True),
        int: lambda: next(words),
        bool: lambda: True,
    }
    hints = get_type_hints(kind)
    make: Callable[..., Request] = kind
    return make(*(values[hints[name]]() for name in kind.__struct_fields__))


@pytest.mark.parametrize("kind", KINDS)
def test_a_request_survives_the_ring(kind: type[Request]) -> None:
    request = filled(kind)
    words = request.words(GENERATION << 32, WORD_MAX)
    assert len(words) <= SLOT_WORDS
    assert all(0 <= word <= WORD_MAX for word in words)
    assert words[0] & 0xFF == kind.KIND
    assert words[0] >> 32 == GENERATION
    slot = (*words, *(0 for _ in range(SLOT_WORDS - len(words))))
    assert kind.of_words(slot) == request


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_that_lends_says_where_last(kind: type[Request]) -> None:
    last = kind.__struct_fields__[-2:]
    assert (last == ("position", "length")) == kind.LENDS


def test_numbers_of_kinds_are_small_and_differ() -> None:
    numbers = [kind.KIND for kind in KINDS]
    assert len(set(numbers)) == len(numbers)
    assert all(0 < number < 256 for number in numbers)


def test_only_shard_0_is_asked_to_write_and_about_members() -> None:
    missing = set(KINDS) - set(whole_table(writing=None))
    assert {kind.__name__ for kind in missing} == {
        "Arrived", "Gone", "Join", "Leave", "Moving", "Propose", "Released", "Revoke",
        "TellMembers",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("auto_commit", "rule"), [(True, DeathRule.FAIL), (False, DeathRule.REREAD)]
)
def test_a_poll_that_commits_is_not_repeated(auto_commit: bool, rule: DeathRule) -> None:
    poll = Poll(1, 2, 3, 1, 4, auto_commit, 5)
    target = Target(1, 2, 3)
    assert ResolvePoll(target, poll).rule() is rule
    assert GroupPoll(target, poll, Claim(4, 5, 6)).rule() is rule
