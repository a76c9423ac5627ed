"""What wrong inputs are answered, word for word: wrong_inputs.txt is the table.

    $ words of the command
    code  the text

{server} stands for the broker's address with its login, {bare} for the address alone, {web} for
that of its HTTP door, {empty} for a directory without anything.
"""

import re
from pathlib import Path
from typing import NamedTuple

import pytest
from click.testing import CliRunner

from borzoi.main import main
from tests.broker import BrokerProcess
from tests.first_hour.conftest import CommandLine

pytestmark = pytest.mark.slow

NAMED = re.compile(r"\{(server|bare|web|empty)\}")
TABLE = Path(__file__).with_name("wrong_inputs.txt")


class Case(NamedTuple):
    words: str
    code: int
    text: str


def cases() -> list[Case]:
    lines = TABLE.read_text(encoding="utf-8").splitlines()
    return [
        Case(command.removeprefix("$ "), *parted(answer))
        for command, answer in zip(lines[::2], lines[1::2], strict=True)
    ]


def parted(answer: str) -> tuple[int, str]:
    code, _, text = answer.partition("  ")
    return int(code), text


def test_there_are_forty_and_more() -> None:
    found = cases()
    assert len(found) >= 40
    assert len({one.words for one in found}) == len(found)


@pytest.mark.parametrize("case", cases(), ids=[one.words for one in cases()])
def test_a_wrong_input_is_answered_in_one_line(
    case: Case, cli: CommandLine, stocked: str, shared_broker: BrokerProcess, tmp_path: Path
) -> None:
    assert stocked == "depot"
    bare = shared_broker.address
    server = f"iggy://iggy:iggy@{bare}"
    web = shared_broker.http_address
    known = {"server": server, "bare": bare, "web": web, "empty": str(tmp_path)}
    # Only these: a template of a message has braces, too.
    words = [NAMED.sub(lambda found: known[found[1]], word) for word in case.words.split()]
    done = CliRunner().invoke(main, words, env=cli.environ)
    last = done.stderr.rstrip("\n").split("\n")[-1]
    for name, value in known.items():
        last = last.replace(value, f"{{{name}}}")
    assert (done.exit_code, last) == (case.code, case.text)
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
