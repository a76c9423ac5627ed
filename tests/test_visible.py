"""What text may do to a terminal or a log: nothing; all of Unicode is looked at."""

import json
import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from borzoi.visible import AS_BYTES, visible, visible_json

EVERYTHING = [chr(code) for code in range(sys.maxunicode + 1)]
# As the Unicode database has them: controls, surrogates, separators of lines and paragraphs, and
# the embeddings, overrides and isolates of writing direction.
ACTING_CATEGORIES = {"Cc", "Cs", "Zl", "Zp"}
ACTING_DIRECTIONS = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
TEXT = st.text(st.characters())  # surrogates too


def acts(character: str) -> bool:
    return (
        unicodedata.category(character) in ACTING_CATEGORIES
        or unicodedata.bidirectional(character) in ACTING_DIRECTIONS
    )


def test_every_character_that_acts_is_escaped_and_every_other_stays() -> None:
    changed = {one for one in EVERYTHING if visible(one) != one}
    assert changed == {one for one in EVERYTHING if acts(one)}
    for one in changed:
        shown = visible(one)
        assert shown.isascii()
        assert shown.isprintable()
        assert shown.startswith("\\")
    # Each by a text of its own, except that a byte that is no UTF-8 looks like the character.
    assert len({visible(one) for one in changed if not "\udc80" <= one <= "\udc9f"}) == (
        len(changed) - 32
    )


@given(TEXT)
def test_text_becomes_one_line_that_shows_all_of_it(text: str) -> None:
    shown = visible(text)
    assert not any(map(acts, shown))
    assert shown == "".join(map(visible, text))
    assert visible(shown) == shown
    shown.encode()


@given(st.binary())
def test_bytes_that_are_no_text_are_shown_as_bytes(data: bytes) -> None:
    shown = visible(data.decode("utf-8", AS_BYTES))
    assert not any(map(acts, shown))
    assert shown == visible(data.decode("utf-8", "backslashreplace"))


@given(st.dictionaries(TEXT, TEXT | st.lists(TEXT)), st.sampled_from([None, 2]))
def test_json_keeps_its_meaning(value: object, indent: int | None) -> None:
    shown = visible_json(json.dumps(value, ensure_ascii=False, indent=indent))
    assert json.loads(shown) == json.loads(json.dumps(value))
    assert not any(acts(one) for one in shown if one != "\n")
    shown.encode()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b]0;owned\x07", r"\x1b]0;owned\x07"),
        ("a\nb\r\tc", r"a\nb\r\tc"),
        ("\x9b31m\x7f\x00", r"\x9b31m\x7f\x00"),
        ("\u202egpj.exe", r"\u202egpj.exe"),
        ("a\u2028b\ud800\udcff", r"a\u2028b\ud800\xff"),
        ("naïve 東京 😀 \\x1b", "naïve 東京 😀 \\x1b"),
    ],
)
def test_examples(text: str, shown: str) -> None:
    assert visible(text) == shown
