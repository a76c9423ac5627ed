"""Duels: medians and ratios from given figures, what is refused, and one real duel."""

import json
from functools import partial
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from borzoi.bench import duel as duels
from borzoi.bench.admin import Admin
from borzoi.bench.broker import OwnBroker
from borzoi.bench.duel_figures import RoleFigures, RunFigures, Spread, duel_lines
from borzoi.bench.duel_report import cells
from borzoi.bench.duel_rows import DUEL_ROWS
from borzoi.bench.main import bench
from borzoi.bench.plans import Credentials, Role
from borzoi.bench.quantities import MB
from borzoi.protocol import commands


def run(*arguments: str) -> Result:
    return CliRunner().invoke(bench, ["duel", *arguments])


def figures(server: str, number: int, rate: float, p99: float, cpu: float | None) -> RunFigures:
    producer = RoleFigures(Role.PRODUCER, rate, rate * 10, p99 / 2, p99)
    return RunFigures("row", server, number, (producer,), cpu, 0.0)


def test_ratios_are_within_a_round() -> None:
    # The machine was three times as fast in round 1; ratios of medians would say 2.0 / 2.0.
    runs = [
        figures("old", 0, 100.0, 4.0, 2.0),
        figures("new", 0, 150.0, 2.0, 1.0),
        figures("old", 1, 300.0, 1.0, 1.0),
        figures("new", 1, 330.0, 1.0, 2.0),
        figures("old", 2, 100.0, 4.0, 2.0),
        figures("new", 2, 120.0, 1.0, 1.6),
    ]
    old, new = duel_lines(["old", "new"], runs)
    assert (old.rate_ratio, old.p99_ratio, old.cpu_ratio) == (None, None, None)
    assert old.mb_per_s == 100.0
    assert new.mb_per_s == 150.0
    assert new.requests_per_s == 1500.0
    assert new.p99_ms == 1.0
    assert new.cpu_us == 1.6
    assert new.rate_ratio == Spread(1.2, 1.1, 1.5)
    assert new.p99_ratio == Spread(2.0, 1.0, 4.0)
    assert new.cpu_ratio == Spread(1.25, 0.5, 2.0)
    assert cells(new)[3] == "1.20 (1.10..1.50)"


def test_a_server_of_unknown_process_has_no_cpu_figures() -> None:
    runs = [figures("old", 0, 100.0, 4.0, None), figures("new", 0, 100.0, 4.0, 1.0)]
    old, new = duel_lines(["old", "new"], runs)
    assert old.cpu_us is None
    assert new.cpu_ratio is None
    assert cells(old)[7] == ""


def test_a_run_without_an_answer_has_no_ratio() -> None:
    runs = [figures("old", 0, 0.0, 0.0, 1.0), figures("new", 0, 10.0, 1.0, 1.0)]
    assert duel_lines(["old", "new"], runs)[1].rate_ratio is None


def test_shapes_in_words() -> None:
    assert DUEL_ROWS["offered-50-group"].shape == (
        "balanced-producer-and-consumer-group, 100 x 1,000 B, 4 producers, 4 members,"
        " 8 partitions, 50 MB/s offered"
    )
    assert DUEL_ROWS["produce-large"].shape == "pinned-producer, 1,000 x 1,000 B, 1 producer"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--server", "a=127.0.0.1:1"], "needs two --server options"),
        (["--server", "a=127.0.0.1:1", "--server", "a=127.0.0.1:2"], "different names"),
        (["--server", "127.0.0.1:1", "--server", "b=127.0.0.1:2"], "needs NAME=HOST:PORT"),
        (["--server", "a=b", "--server", "b=127.0.0.1:2"], "needs host:port"),
        (
            ["--server", "a=127.0.0.1:1", "--server", "b=127.0.0.1:1", "--pid", "c=1"],
            "--pid names c",
        ),
        (["--server", "a=127.0.0.1:1", "--server", "b=127.0.0.1:1", "--pid", "a=x"], "NAME=PID"),
        (["--server", "a=127.0.0.1:1", "--server", "b=127.0.0.1:1"], "cannot connect to a at"),
    ],
)
def test_what_is_refused(arguments: list[str], said: str) -> None:
    result = run(*arguments)
    assert result.exit_code != 0
    assert said in result.output


def test_servers_take_turns_to_be_first(monkeypatch: pytest.MonkeyPatch) -> None:
    def run_row(one: duels.Contestant, _row: object, _rules: object, number: int) -> RunFigures:
        return figures(one.name, number, 1.0, 1.0, None)

    monkeypatch.setattr(duels, "run_row", run_row)
    no_one = Credentials("", "")
    contestants = [duels.Contestant(name, "", 0, no_one) for name in "abc"]
    order: list[str] = []
    rules = duels.Rules(rounds=3, duration_ns=1)
    for _row, runs in duels.duel(contestants, [DUEL_ROWS["pairs"]], rules, lambda _run: None):
        order += [run.server for run in runs]
    assert "".join(order) == "abcbcacab"


@pytest.mark.slow
def test_an_unknown_row_names_the_known_ones(address: str) -> None:
    result = run("--server", f"a={address}", "--server", f"b={address}", "--only", "everything")
    assert "no row everything; there are produce-large, " in result.output


@pytest.mark.slow
def test_a_duel_of_a_broker_with_itself(
    shared_broker: OwnBroker,
    address: str,
    results: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Little to read: the figures do not matter here. On a busy machine the first answer to an
    # offered rate may take a second.
    small = partial(duels.Rules, warmup_ns=0, filled_bytes=MB, group_filled_bytes=MB)
    monkeypatch.setattr(duels, "Rules", small)
    rows = ("group", "offered-10-pieces")
    result = run(
        *("--server", f"first={address}", "--server", f"second={address}"),
        *("--rounds", "1", "-d", "1500ms", "-o", str(results)),
        *(word for row in rows for word in ("--only", row)),
    )
    assert result.exit_code == 0, result.output
    found = json.loads((results / "duel.json").read_text())
    assert set(found["rows"]) == set(rows)
    group = [line for line in found["lines"] if line["row"] == "group"]
    assert [line["role"] for line in group] == ["consumer", "consumer"]
    idle = [line for line in found["lines"] if not line["mb_per_s"] > 0 or not line["cpu_us"] > 0]
    assert idle == []
    seconds = [line for line in found["lines"] if line["server"] == "second"]
    assert all(line["rate_ratio"]["middle"] > 0 for line in seconds)
    assert (results / "duel.png").stat().st_size > 1000
    assert "second" in (results / "duel.html").read_text()
    admin = Admin.connect(shared_broker.host, shared_broker.port, shared_broker.credentials)
    names = {stream.name for stream in admin.ask(commands.GetStreams())}
    admin.close()
    assert not {name for name in names if name.startswith(duels.STREAM_PREFIX)}
