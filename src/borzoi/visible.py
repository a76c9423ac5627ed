r"""Text from elsewhere as a terminal or a log may show it: what would act on the reader is escaped.

A name or a payload may hold anything. Written as it is, ESC drives the terminal, and a line break
forges a line of the log. A directional override shows other words than are there. Escaped are:

    \x00 .. \x1f, \x7f .. \x9f             control characters; \n, \r and \t by these short names
    \u2028, \u2029                         separators that some viewers take for a line break
    \u202a .. \u202e, \u2066 .. \u2069     embeddings, overrides and isolates of direction
    \x80 .. \xff                           bytes that are no UTF-8
    \ud800 .. \udfff                       all other surrogates, which no UTF-8 can hold

Always: every other character stays, the backslash too, so escaping twice changes nothing. JSON is
the form that a program reads back. Pure, and the only place that knows what is escaped.
"""

import codecs
from typing import Final

CONTROLS: Final = (*range(0x20), *range(0x7F, 0xA0))
SEPARATORS: Final = (0x2028, 0x2029)
DIRECTIONS: Final = (*range(0x202A, 0x202F), *range(0x2066, 0x206A))
SHORT: Final = {ord("\n"): r"\n", ord("\r"): r"\r", ord("\t"): r"\t"}
BEYOND_LATIN: Final = {code: rf"\u{code:04x}" for code in (*SEPARATORS, *DIRECTIONS)}

IN_TEXT: Final = {code: rf"\x{code:02x}" for code in CONTROLS} | SHORT | BEYOND_LATIN
# The encoder escapes those below the space inside of strings; outside they are line breaks.
IN_JSON: Final = {code: rf"\u{code:04x}" for code in CONTROLS if code > ord(" ")} | BEYOND_LATIN

# How bytes that may be no UTF-8 travel as text (PEP 383): 0xff as U+DCFF.
AS_BYTES: Final = "surrogateescape"
UNDECODABLE: Final = range(0xDC80, 0xDD00)
SHOW_SURROGATES: Final = "borzoi.visible"


def visible(text: str) -> str:
    """One line that shows every character of `text` and obeys none of them."""
    if text.isascii() and text.isprintable():
        return text
    return text.translate(IN_TEXT).encode("utf-8", SHOW_SURROGATES).decode()


def visible_json(text: str) -> str:
    """The same for a JSON document: it stays one, and means the same."""
    if text.isascii() and text.isprintable():
        return text
    return text.translate(IN_JSON).encode("utf-8", "backslashreplace").decode()


def _show_surrogates(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError), error
    codes = map(ord, error.object[error.start : error.end])
    shown = (
        rf"\x{code - 0xDC00:02x}" if code in UNDECODABLE else rf"\u{code:04x}" for code in codes
    )
    return "".join(shown), error.end


codecs.register_error(SHOW_SURROGATES, _show_surrogates)
