"""The commands that pages of the console name: the command line knows them, with these options."""

import re
import shlex
from pathlib import Path
from typing import Final

import click
import pytest

from borzoi.bench.main import bench
from borzoi.main import main
from tests.tidy.repository import ROOT

QUOTED: Final = re.compile(r'["`]([^"`]*\./borzoi [^"`]*)["`]')
VARIABLE: Final = re.compile(r"\$\{[^}]*\}")
PROSE: Final = re.compile(r" (?:&&|says|starts)( .*|$)")
"""What stands behind a command in a sentence."""


def hints() -> list[str]:
    """Every command in the texts of the pages; a variable is a number, which is a name, too."""
    texts = [
        text
        for page in (ROOT / "console/src").rglob("*.tsx")
        for text in QUOTED.findall(page.read_text())
    ]
    return sorted(
        {
            PROSE.sub("", VARIABLE.sub("1", one)).strip()
            for text in texts
            for one in text.split("./borzoi ")[1:]
        }
    )


def test_pages_name_commands() -> None:
    found = hints()
    assert "stream create orders" in found
    assert len(found) > 12


@pytest.mark.parametrize("hint", hints())
def test_a_hint_is_a_command(hint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "DIRECTORY").mkdir()
    monkeypatch.chdir(tmp_path)
    words = shlex.split(hint)
    command: click.Command = main
    while isinstance(command, click.Group):
        name = words.pop(0)
        found = command.get_command(click.Context(command), name)
        assert found is not None, name
        command = bench if name == "bench" else found
    # Reads the words as a start would, and refuses what it does not know; nothing runs.
    command.make_context(command.name, words)
