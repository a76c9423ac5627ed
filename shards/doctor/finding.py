"""What one look has found: the fact, what is needed, and how to get there. Pure."""

from enum import Enum
from typing import NamedTuple


class Verdict(Enum):
    """`note` costs speed or safety, `bad` stops a start."""

    FINE = "fine"
    NOTE = "note"
    BAD = "bad"


class Finding(NamedTuple):
    """One line of the doctor; `remedy` is empty where all is fine."""

    subject: str
    verdict: Verdict
    found: str
    needed: str
    remedy: str = ""


def judged(
    subject: str, found: str, needed: str, *, fine: bool, remedy: str, stops: bool = False
) -> Finding:
    """A finding with a remedy only where one is needed."""
    if fine:
        return Finding(subject, Verdict.FINE, found, needed)
    return Finding(subject, Verdict.BAD if stops else Verdict.NOTE, found, needed, remedy)
