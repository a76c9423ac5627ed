"""What newcomers stumbled over has tests: the list names them, and they are there."""

import re
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from borzoi.client.cli.parameters import STREAM_AND_TOPIC
from borzoi.main import main
from borzoi.spark.pipeline import place_of
from tests.tidy.repository import ROOT

LIST = Path(__file__).parent / "stumbles.txt"
STUMBLES = 22


def stumbles() -> dict[str, list[str]]:
    """The tests of each stumble."""
    found: dict[str, list[str]] = {}
    for line in LIST.read_text().splitlines():
        if line.startswith("    "):
            found[list(found)[-1]].append(line.strip())
        elif not line.startswith("#"):
            found[line] = []
    return found


def test_every_stumble_has_a_test() -> None:
    listed = stumbles()
    assert len(listed) == STUMBLES
    for stumble, tests in listed.items():
        assert tests, stumble
        for test in tests:
            path, name = test.split("::")
            text = (ROOT / path).read_text()
            assert re.search(rf"^(async )?def {name}\(", text, re.MULTILINE), test


def test_a_pipeline_says_which_account_it_takes(capsys: pytest.CaptureFixture[str]) -> None:
    topic = STREAM_AND_TOPIC.convert("orders/events", None, None)
    place_of(topic, "127.0.0.1:8090", "iggy", "iggy", None)
    said = capsys.readouterr().err
    assert "127.0.0.1:8090 with the account of a new broker, iggy:iggy" in said
    assert "BORZOI_SERVER" in said
    place_of(topic, "127.0.0.1:8090", "iggy", "iggy", "a token")
    place_of(topic, "iggy://reader:secret@127.0.0.1:8090", "iggy", "iggy", None)
    assert capsys.readouterr().err == ""


def test_bench_is_there_without_the_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = CliRunner().invoke(main, ["bench", "--help"])
    assert shown.exit_code == 0
    assert "pinned-producer" in shown.output
    monkeypatch.setitem(sys.modules, "borzoi.bench.main", None)
    without = CliRunner().invoke(main, ["bench", "--help"])
    assert without.exit_code == 1
    assert "install borzoi[bench]" in without.output
    tests = CliRunner().invoke(main, ["test"])
    assert (tests.exit_code, "in a checkout: call ./borzoi test" in tests.output) == (1, True)
