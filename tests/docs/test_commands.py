"""Every command of the papers works, word by word, in a directory that looks like a fresh clone."""

import re
import shlex
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import pytest

from borzoi.shards.config import check_file
from tests.docs.blocks import (
    ELSEWHERE,
    NOT_RUN,
    OPTIONS_CHECKED,
    RUN,
    STOPPED,
    Block,
    all_blocks,
    blocks_of,
    commands_of,
    papers,
    without_blocks,
)
from tests.docs.checkout import SERVE, Checkout
from tests.docs.module_helps import helps_of
from tests.tidy.repository import ROOT

README: Final = ROOT / "README.md"
MODULE: Final = [".venv/bin/python", "-m"]
LANGUAGES: Final = {"sh", "python", "toml", "text", "ini", "yaml"}

# The exceptions, in full.
NEVER_RUN: Final = {
    ("docs/DEPLOY.md", "python -m pip wheel --no-deps --wheel-dir dist ."),
    ("docs/DEPLOY.md", "uv tool install dist/borzoi-*.whl"),
    ("docs/DEPLOY.md", "podman build -f docs/deploy/Containerfile -t borzoi ."),
    (
        "docs/DEPLOY.md",
        "IGGY_ROOT_PASSWORD=a-good-one podman compose -f docs/deploy/compose.yaml up --build",
    ),
    (
        "docs/DEPLOY.md",
        "kubectl create secret generic borzoi-root --from-literal=password=a-good-one",
    ),
    ("docs/DEPLOY.md", "kubectl apply -f docs/deploy/kubernetes.yaml"),
    ("docs/OPERATIONS.md", "./borzoi reset-root"),
    ("docs/OPERATIONS.md", "IGGY_METRICS_ENABLED=true ./borzoi serve"),
    ("docs/OPERATIONS.md", "curl -s http://127.0.0.1:8094/metrics"),
    ("docs/SPARK.md", "pip install '.[spark]'"),
}
ONLY_OPTIONS_MAX: Final = 45
"""Commands that are long, or need what a test does not have; some thirty of them are long tests."""


def runs(block: Block) -> bool:
    return block.mark in (RUN, STOPPED) and block.language in ("sh", "python")


RUNNING: Final = [paper for paper in papers() if any(map(runs, blocks_of(paper)))]
CHECKED: Final = [
    (block.document, command)
    for block in all_blocks()
    if block.language == "sh" and block.mark == OPTIONS_CHECKED
    for command in commands_of(block)
]


@pytest.fixture
def checkout(tmp_path: Path) -> Iterator[Checkout]:
    made = Checkout(tmp_path)
    yield made
    made.stop()


@pytest.mark.slow
@pytest.mark.parametrize("paper", RUNNING, ids=lambda paper: paper.name)
def test_what_a_page_says_can_be_done(checkout: Checkout, paper: Path) -> None:
    if paper != README:
        _quick_start(checkout)
    said = "".join(_done(checkout, block) for block in blocks_of(paper) if runs(block))
    if paper == README:
        assert "hello" in said
        assert "world" in said
    assert not checkout.stop()  # 0, or None where a block has stopped it


def _quick_start(checkout: Checkout) -> None:
    """Other pages take it for granted."""
    for block in blocks_of(README):
        if runs(block) and block.language == "sh":
            _done(checkout, block)


def _done(checkout: Checkout, block: Block) -> str:
    if block.mark == STOPPED:
        assert checkout.stop() == 0
    else:
        checkout.serve()
    if block.text.strip() == SERVE:
        return ""
    return checkout.python(block.text) if block.language == "python" else checkout.shell(block.text)


@pytest.mark.slow
def test_commands_that_are_not_run_know_their_options(checkout: Checkout, tmp_path: Path) -> None:
    split = [shlex.split(command, comments=True) for _, command in CHECKED]
    modules = [words for words in split if words[:2] == MODULE]
    said = helps_of((words[2] for words in modules), tmp_path)
    unknown = [_unknown(words[3:], said[words[2]]) for words in modules]
    for words in split:
        if words not in modules:
            unknown.append(_unknown(words[2:], checkout.shell(shlex.join([*words, "--help"]))))
    assert [found for found in unknown if found] == []


def _unknown(words: Sequence[str], said: str) -> list[str]:
    """The options among these words that a help text does not name."""
    return [word for word in words if word.startswith("-") and word not in said]


@pytest.mark.slow
def test_the_number_of_conformance_tests(checkout: Checkout) -> None:
    said = checkout.shell(f"cd {ROOT} && {sys.executable} -m pytest tests/conformance --co -q")
    page = (ROOT / "docs/CLIENTS.md").read_text()
    assert re.findall(r"(\d+) tests collected", said) == re.findall(
        r"(\d+) conformance tests", page
    )


def test_exceptions_are_few_and_have_a_reason() -> None:
    found = {
        (block.document, command)
        for block in all_blocks()
        if block.mark == NOT_RUN
        for command in commands_of(block)
    }
    assert found == NEVER_RUN
    assert len(CHECKED) <= ONLY_OPTIONS_MAX
    marked = [block for block in all_blocks() if block.mark != RUN]
    assert {block.mark for block in marked} <= {NOT_RUN, OPTIONS_CHECKED, ELSEWHERE, STOPPED}
    assert [block for block in marked if len(block.reason.split()) < 2] == []
    for block in marked:
        if block.mark == ELSEWHERE:
            test = ROOT / block.reason.partition(",")[0]
            assert Path(block.document).name in test.read_text()


@pytest.mark.parametrize(
    "block",
    [block for block in all_blocks() if block.language == "toml"],
    ids=lambda block: block.document,
)
def test_settings_are_accepted(tmp_path: Path, block: Block) -> None:
    file = tmp_path / "borzoi.toml"
    file.write_text(block.text)
    assert list(check_file(file)) == []


def test_no_command_hides_from_these_tests() -> None:
    assert {block.language for block in all_blocks()} <= LANGUAGES
    hidden = [
        f"{paper.relative_to(ROOT)}: {line}"
        for paper in papers()
        for line in without_blocks(paper.read_text()).splitlines()
        if line.startswith(("    $ ", "    ./borzoi", "    .venv/", "```"))
    ]
    assert hidden == []
