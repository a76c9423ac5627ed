"""Subjects, and who of a group has which partition."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from borzoi.liftbridge.groups import assignments
from borzoi.liftbridge.subjects import (
    AttachedPartition,
    SubjectIndex,
    matches,
    partition_subject,
    subject_problem,
)


@pytest.mark.parametrize(
    ("subject", "is_one"),
    [
        ("foo", True), ("foo.bar", True), ("foo.*", True), ("foo.>", True), ("", False),
        ("foo bar", False), ("foo\t", False), ("foo\r\n", False), (".foo", False),
        ("foo..bar", False), ("foo.", False),
    ],
)  # fmt: skip
def test_subjects_have_no_empty_tokens_and_no_spaces(subject: str, is_one: bool) -> None:
    assert (subject_problem(subject) is None) is is_one


@pytest.mark.parametrize(
    ("pattern", "subject", "do_match"),
    [
        ("foo", "foo", True), ("foo", "foo.1", False), ("foo.*", "foo.1", True),
        ("foo.*", "foo", False), ("foo.*", "foo.1.2", False), ("foo.>", "foo.1.2", True),
        ("foo.>", "foo", False), (">", "a.b", True), ("*.b", "a.b", True), ("foo.*", "foo.*", True),
        ("a.>.b", "a.>.b", True), ("a.>.b", "a.x.b", False),
    ],
)  # fmt: skip
def test_patterns_match_as_on_a_nats_server(pattern: str, subject: str, do_match: bool) -> None:
    assert matches(pattern, subject) is do_match


def test_partitions_have_subjects_of_their_own() -> None:
    assert [partition_subject("foo", number) for number in (0, 1, 12)] == ["foo", "foo.1", "foo.12"]


def test_the_index_finds_what_matches() -> None:
    names = ["foo", "foo.1", "foo.*", "foo.>", "bar"]
    index = SubjectIndex((name, AttachedPartition(name, 0)) for name in names)
    for subject in ("foo", "foo.1", "foo.1.2", "bar", "baz"):
        found = {one.stream for one in index.find(subject)}
        assert found == {name for name in names if matches(name, subject)}


def test_assignments_are_those_of_the_reference() -> None:
    members = {"b": ["x", "y"], "a": ["x"], "c": ["y"]}
    assert assignments(members, {"x": 4, "y": 3}) == {
        "a": {"x": [0, 2]},
        "b": {"x": [1, 3], "y": [2]},
        "c": {"y": [0, 1]},
    }


@given(
    st.dictionaries(
        st.sampled_from("abcdef"),
        st.lists(st.sampled_from("xyz"), min_size=1, unique=True),
        min_size=1,
    ),
    st.dictionaries(st.sampled_from("xyz"), st.integers(1, 9)),
)
def test_each_partition_has_one_member(
    members: dict[str, list[str]], partitions: dict[str, int]
) -> None:
    found = assignments(members, partitions)
    given_out = [
        (stream, number)
        for of_member in found.values()
        for stream, numbers in of_member.items()
        for number in numbers
    ]
    wanted = {stream for streams in members.values() for stream in streams}
    all_there_are = [
        (stream, number)
        for stream, count in partitions.items()
        if stream in wanted
        for number in range(count)
    ]
    assert sorted(given_out) == sorted(all_there_are)
    for member, of_member in found.items():
        assert set(of_member) <= set(members[member])
