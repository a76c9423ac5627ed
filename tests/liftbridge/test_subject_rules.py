"""Subjects: what is legal, where partitions listen, what a pattern matches."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from borzoi.liftbridge.subjects import (
    SUBJECT_SIZE_MAX,
    group_problem,
    inbox_problem,
    matches,
    partition_subject,
    subject_problem,
)

TOKENS = st.sampled_from(["a", "b", "foo", "1"])
SUBJECTS = st.lists(TOKENS, min_size=1, max_size=5).map(".".join)
PATTERNS = st.tuples(
    st.lists(st.one_of(TOKENS, st.just("*")), max_size=4), st.sampled_from(["a", "*", ">"])
).map(lambda parts: ".".join([*parts[0], parts[1]]))


@pytest.mark.parametrize("subject", ["foo", "foo.bar", "foo.*", "*", ">", "foo.>", "ä.ö"])
def test_legal_subjects(subject: str) -> None:
    assert subject_problem(subject) is None


@pytest.mark.parametrize(
    ("subject", "says"),
    [
        ("", "empty"),
        ("a b", "blank"),
        ("a\tb", "blank"),
        ("a\r\nPUB x 0", "blank"),
        ("a\0", "blank"),
        (".a", "empty token"),
        ("a.", "empty token"),
        ("a..b", "empty token"),
        ("foo*", "inside a token"),
        ("foo.b>", "inside a token"),
        ("a.>.b", "before its last token"),
        ("x" * (SUBJECT_SIZE_MAX + 1), "at most 255"),
    ],
)
def test_illegal_subjects(subject: str, says: str) -> None:
    problem = subject_problem(subject)
    assert problem is not None
    assert says in problem


def test_the_subjects_of_partitions() -> None:
    assert [partition_subject("foo", number) for number in range(3)] == ["foo", "foo.1", "foo.2"]
    assert partition_subject("foo.*", 1) == "foo.*.1"


def test_the_rest_of_all_subjects_leaves_none_for_more_partitions() -> None:
    assert subject_problem("foo.>", 1) is None
    assert "one partition" in str(subject_problem("foo.>", 2))
    assert subject_problem("foo.*", 2) is None


def test_the_longest_subject_counts_its_partition() -> None:
    assert subject_problem("x" * SUBJECT_SIZE_MAX, 1) is None
    assert subject_problem("x" * (SUBJECT_SIZE_MAX - 2), 10) is None
    assert "256 bytes" in str(subject_problem("x" * (SUBJECT_SIZE_MAX - 2), 11))


@pytest.mark.parametrize(
    ("pattern", "subject", "is_match"),
    [
        ("foo", "foo", True),
        ("foo", "foo.bar", False),
        ("foo.bar", "foo", False),
        ("foo.*", "foo.bar", True),
        ("foo.*", "foo", False),
        ("foo.*", "foo.bar.baz", False),
        ("foo.*", "foo.*", True),
        ("foo.bar", "foo.*", False),
        ("*.bar", "foo.bar", True),
        ("foo.>", "foo.bar.baz", True),
        ("foo.>", "foo", False),
        (">", "foo", True),
        (">", "foo.bar", True),
        ("foo.*.1", "foo.x.1", True),
        ("foo.*.1", "foo.x.2", False),
        ("Foo", "foo", False),
    ],
)
def test_patterns(pattern: str, subject: str, is_match: bool) -> None:
    assert matches(pattern, subject) is is_match


def by_hand(pattern: list[str], subject: list[str]) -> bool:
    if pattern == [">"]:
        return subject != []
    if not pattern or not subject:
        return pattern == subject
    return pattern[0] in ("*", subject[0]) and by_hand(pattern[1:], subject[1:])


@given(pattern=PATTERNS, subject=SUBJECTS)
def test_patterns_by_a_second_way(pattern: str, subject: str) -> None:
    assert matches(pattern, subject) is by_hand(pattern.split("."), subject.split("."))


def test_groups() -> None:
    assert group_problem("") is None
    assert group_problem("workers") is None
    assert "blank" in str(group_problem("two words"))
    assert "bytes" in str(group_problem("x" * (SUBJECT_SIZE_MAX + 1)))


@pytest.mark.parametrize("inbox", ["acks", "_INBOX.a.b", "a.*"])
def test_inboxes(inbox: str) -> None:
    assert inbox_problem(inbox) is None


@pytest.mark.parametrize("inbox", ["a b", "a\r\nPUB b 0\r\n\r\n", "a..b", "", "x" * 2000])
def test_what_is_no_inbox(inbox: str) -> None:
    """It comes from strangers, and would be written into the protocol line of a publish."""
    assert inbox_problem(inbox)
