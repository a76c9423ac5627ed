"""The dotenv file: variables for the broker that are not in its environment.

One assignment per line: NAME=value, optionally after `export`; blank lines and lines that begin
with # are skipped. A value in single quotes is taken literally; in double quotes a backslash makes
n, t and r special and everything else literal; without quotes a value ends at " #". Pure.
Always: no value appears in a complaint.
"""

from __future__ import annotations

import re
from typing import Final

ASSIGNMENT: Final = re.compile(r"(?:export\s+)?([A-Za-z_][A-Za-z0-9_.]*)\s*=\s*(.*)")
DOUBLE_QUOTED: Final = re.compile(r'"((?:[^"\\]|\\.)*)"\s*(?:#.*)?')
SINGLE_QUOTED: Final = re.compile(r"'([^']*)'\s*(?:#.*)?")
ESCAPE: Final = re.compile(r"\\(.)")
ESCAPED: Final = {"n": "\n", "t": "\t", "r": "\r"}


def parse_dotenv(text: str) -> tuple[dict[str, str], list[int]]:
    """The variables of `text`, and the numbers of the lines that are no assignment."""
    variables: dict[str, str] = {}
    bad_lines = []
    for number, line in enumerate(text.splitlines(), start=1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        match = ASSIGNMENT.fullmatch(line)
        value = None if match is None else _value(match[2])
        if match is None or value is None:
            bad_lines.append(number)
        else:
            variables[match[1]] = value
    return variables, bad_lines


def _value(text: str) -> str | None:
    if text.startswith('"'):
        match = DOUBLE_QUOTED.fullmatch(text)
        return match and ESCAPE.sub(lambda found: ESCAPED.get(found[1], found[1]), match[1])
    if text.startswith("'"):
        match = SINGLE_QUOTED.fullmatch(text)
        return match and match[1]
    return "" if text.startswith("#") else text.split(" #", 1)[0].rstrip()
