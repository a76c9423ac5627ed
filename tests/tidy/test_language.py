"""Texts speak of things, not of persons: docstrings, comments, log lines, errors and papers."""

import re
from pathlib import Path
from typing import Final

import pytest

from tests.tidy.repository import ROOT, written_files

BANNED: Final = frozenset(
    {"whoever", "whomever", "somebody", "someone", "nobody", "told", "anew", "he", "him"}
)
WORD: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
"""Words of texts and of names: told_by and ToldBy have one."""

SUFFIXES: Final = frozenset({".py", ".pyx", ".pxd", ".pyi", ".md", ".toml", ".txt", ""})
ALLOWED: Final[frozenset[str]] = frozenset()
"""Files that may still have such words. Empty, and to stay so."""


def speaks() -> list[Path]:
    here = Path(__file__).resolve()
    return [
        path
        for path in written_files()
        if path.suffix in SUFFIXES and path != here and path.name != "LICENSE"
    ]


def persons(text: str) -> list[str]:
    return [
        f"line {number}: {word}"
        for number, line in enumerate(text.splitlines(), 1)
        for word in WORD.findall(line)
        if word.lower() in BANNED
    ]


def test_no_text_speaks_of_persons() -> None:
    found = {
        str(path.relative_to(ROOT)): lines
        for path in speaks()
        if str(path.relative_to(ROOT)) not in ALLOWED
        and (lines := persons(path.read_text(encoding="utf-8", errors="replace")))
    }
    assert not found, "\n".join(f"{name}: {', '.join(lines)}" for name, lines in found.items())


@pytest.mark.parametrize("text", ["# told later", "def told_by():", "class Nobody:", "a\nAnew."])
def test_a_person_is_found(text: str) -> None:
    assert persons(text)


@pytest.mark.parametrize("text", ["the end", "header", "retold stories", "a shell"])
def test_parts_of_other_words_are_not(text: str) -> None:
    assert not persons(text)
