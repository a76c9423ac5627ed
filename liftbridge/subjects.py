"""Subjects of NATS: which are allowed, which one a partition has, and which match a pattern. Pure.

Partition 0 of a stream on subject `S` listens on `S`, partition N on `S.N`. In a pattern `*` stands
for one token and a last `>` for one or more.
"""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

FORBIDDEN: Final = frozenset(" \t\r\n\f\v\0")
ONE: Final = "*"
REST: Final = ">"

SUBJECT_SIZE_MAX: Final = 255
"""Bytes, the token of the last partition included."""

INBOX_SIZE_MAX: Final = 1024
"""Bytes: a protocol line of NATS has 4,096 at most, its other words included."""


class AttachedPartition(NamedTuple):
    """A partition of a stream, which gets what is published on its subject."""

    stream: str
    partition: int


def subject_problem(subject: str, partitions: int = 1) -> str | None:
    """Why no stream of so many partitions can listen on a subject; None if it can.

    The reference checks only blanks and empty tokens. A pattern that NATS would refuse at the
    subscription is refused here, before there is a stream that never gets a message.
    """
    problem = _text_problem(partition_subject(subject, max(0, partitions - 1)), SUBJECT_SIZE_MAX)
    if problem is not None:
        return f"subject {subject!r} {problem}"
    tokens = subject.split(".")
    if any(len(token) > 1 and (ONE in token or REST in token) for token in tokens):
        return f"subject {subject!r} has a wildcard inside a token"
    if REST in tokens[:-1]:
        return f"subject {subject!r} has {REST!r} before its last token"
    if tokens[-1] == REST and partitions > 1:
        return (
            f"subject {subject!r} ends with {REST!r}, which leaves no subject for the partitions"
            f" 1 to {partitions - 1}: a stream on it has one partition"
        )
    return None


def publish_problem(subject: str) -> str | None:
    """Why nothing can be published to a subject; None if it can. It may look like a pattern."""
    problem = _text_problem(subject, INBOX_SIZE_MAX)
    return None if problem is None else f"subject {subject[:INBOX_SIZE_MAX]!r} {problem}"


def is_pattern(subject: str) -> bool:
    """Whether a subscription to it gets what is published on other subjects, too."""
    tokens = subject.split(".")
    return ONE in tokens or tokens[-1] == REST


def inbox_problem(inbox: str) -> str | None:
    """Why nothing can be published to a subject that a stranger named; None if it can."""
    problem = _text_problem(inbox, INBOX_SIZE_MAX)
    return None if problem is None else f"inbox {inbox[:INBOX_SIZE_MAX]!r} {problem}"


def group_problem(group: str) -> str | None:
    """Why a name is no NATS queue group; None if it is one, or empty, which means no group."""
    if FORBIDDEN.intersection(group):
        return f"group {group!r} has a blank in it"
    size = len(group.encode())
    if size > SUBJECT_SIZE_MAX:
        return f"group has {size} bytes, at most {SUBJECT_SIZE_MAX} are allowed"
    return None


def _text_problem(text: str, size_max: int) -> str | None:
    if not text:
        return "is empty"
    if FORBIDDEN.intersection(text):
        return "has a blank in it"
    if "" in text.split("."):
        return "has an empty token"
    size = len(text.encode())
    return f"has {size} bytes, at most {size_max} are allowed" if size > size_max else None


def partition_subject(subject: str, partition: int) -> str:
    """The subject of one partition of a stream."""
    return f"{subject}.{partition}" if partition else subject


def matches(pattern: str, subject: str) -> bool:
    """Whether a subscription to the pattern gets what is published on the subject."""
    wanted, tokens = pattern.split("."), subject.split(".")
    for at, one in enumerate(wanted):
        if one == REST and at == len(wanted) - 1:
            return len(tokens) > at
        if at >= len(tokens) or one not in (ONE, tokens[at]):
            return False
    return len(wanted) == len(tokens)


class SubjectIndex:
    """The attached partitions by their subjects. Made again when streams change."""

    def __init__(self, attached: Iterable[tuple[str, AttachedPartition]]) -> None:
        self._exact: dict[str, list[AttachedPartition]] = {}
        self._patterns: dict[str, list[AttachedPartition]] = {}
        for subject, partition in attached:
            found = self._patterns if is_pattern(subject) else self._exact
            found.setdefault(subject, []).append(partition)

    def find(self, subject: str) -> Iterator[AttachedPartition]:
        """All partitions that get what is published on a subject, each once."""
        yield from self._exact.get(subject, ())
        for pattern, partitions in self._patterns.items():
            if matches(pattern, subject):
                yield from partitions
