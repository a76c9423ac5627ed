"""The fenced blocks of the papers, with the mark that stands before a block.

A mark is a comment on the line before the fence:

    <!-- not run: REASON -->            a reader runs it, the test does not
    <!-- broker stopped: REASON -->     the broker is stopped before
    <!-- options checked: REASON -->    each command is run with --help, which knows its options
    <!-- run elsewhere: FILE, REASON -->   by that test
"""

import re
from pathlib import Path
from typing import Final, NamedTuple

from tests.tidy.repository import ROOT

RUN: Final = ""
NOT_RUN: Final = "not run"
STOPPED: Final = "broker stopped"
OPTIONS_CHECKED: Final = "options checked"
ELSEWHERE: Final = "run elsewhere"

FENCE: Final = re.compile(
    r"^(?:<!-- (?P<mark>[a-z ]+): (?P<reason>[^\n]+?) -->\n)?"
    r"```(?P<language>[a-z]*)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)


class Block(NamedTuple):
    """One fenced block of a paper."""

    document: str
    language: str
    text: str
    mark: str
    reason: str


def papers() -> list[Path]:
    """Every page that people read."""
    return sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def blocks_of(paper: Path) -> list[Block]:
    """Its blocks, in the order of the page."""
    return [
        Block(
            str(paper.relative_to(ROOT)),
            found["language"],
            found["text"],
            found["mark"] or RUN,
            found["reason"] or "",
        )
        for found in FENCE.finditer(paper.read_text())
    ]


def all_blocks() -> list[Block]:
    return [block for paper in papers() for block in blocks_of(paper)]


def without_blocks(text: str) -> str:
    """The prose of a page."""
    return FENCE.sub("", text)


def commands_of(block: Block) -> list[str]:
    """The commands of a shell block, one for each line."""
    joined = block.text.replace("\\\n", " ")
    return [line for line in joined.splitlines() if line.strip() and not line.startswith("#")]
