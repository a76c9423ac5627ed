"""The checker finds what it is for: broken histories, one for each way to break one."""

from collections.abc import Callable

import pytest

from tests.cluster.history import History


def sent(history: History, *messages: int) -> None:
    for offset, message in enumerate(messages):
        history.submitted(message, offset)
        history.stored(message)


def test_a_log_that_kept_its_word_has_no_problems() -> None:
    history = History()
    sent(history, 11, 12, 13)
    history.submitted(14, 3)
    history.not_stored(14)
    history.submitted(15, 3)
    history.seen(12, 1)
    history.ends_with({1: 12, 2: 13, 3: 15}, dropped=1, end=4)
    assert history.problems == []


def lost_at_the_end(history: History) -> None:
    history.ends_with({0: 11}, dropped=0, end=1)


def lost_in_the_middle(history: History) -> None:
    history.ends_with({0: 11, 2: 13}, dropped=0, end=3)


def lost_without_an_acknowledgement(history: History) -> None:
    history.ends_with({0: 11, 1: 12, 2: 13}, dropped=0, end=4)


def twice(history: History) -> None:
    history.ends_with({0: 11, 1: 12, 2: 13, 3: 11}, dropped=0, end=4)


def in_another_place(history: History) -> None:
    history.ends_with({0: 12, 1: 11, 2: 13}, dropped=0, end=3)


def read_in_two_places(history: History) -> None:
    history.seen(20, 5)
    history.seen(20, 6)


def two_messages_read_in_one_place(history: History) -> None:
    history.seen(20, 5)
    history.seen(21, 5)


def acknowledged_before_what_came_first(history: History) -> None:
    history.submitted(20, 1)
    history.stored(20)


def refused_and_then_read(history: History) -> None:
    history.not_stored(20)
    history.seen(20, 3)


def refused_after_it_was_read(history: History) -> None:
    history.seen(20, 3)
    history.not_stored(20)


@pytest.mark.parametrize(
    ("break_it", "kind"),
    [
        (lost_at_the_end, "lost"),
        (lost_in_the_middle, "lost"),
        (lost_without_an_acknowledgement, "lost"),
        (twice, "twice"),
        (in_another_place, "reordered"),
        (read_in_two_places, "twice"),
        (two_messages_read_in_one_place, "reordered"),
        (acknowledged_before_what_came_first, "reordered"),
        (refused_and_then_read, "refused but there"),
        (refused_after_it_was_read, "refused but there"),
    ],
)
def test_a_broken_history_is_found(break_it: Callable[[History], None], kind: str) -> None:
    history = History()
    sent(history, 11, 12, 13)
    break_it(history)
    assert kind in {problem.partition(":")[0] for problem in history.problems}
