"""Command lines as iggy-bench has them, and what becomes of them."""

from typing import Any

import click
import pytest
from click.testing import CliRunner

from borzoi.bench.kind_commands import kind_command
from borzoi.bench.kinds import BY_NAME, KINDS
from borzoi.bench.main import BenchGroup, bench
from borzoi.bench.options import Options
from borzoi.bench.quantities import Range

DEFAULTS = {
    "pinned-producer": (8, 0, 0, 8, 1),
    "pinned-consumer": (0, 8, 0, 8, None),
    "pinned-producer-and-consumer": (8, 8, 0, 8, 1),
    "balanced-producer": (8, 0, 0, 1, 24),
    "balanced-consumer-group": (0, 8, 1, 1, None),
    "balanced-producer-and-consumer-group": (8, 8, 1, 1, 24),
    "end-to-end-producing-consumer": (8, 8, 0, 8, 1),
    "end-to-end-producing-consumer-group": (8, 8, 1, 1, 24),
}


def parsed(line: str) -> Options:
    """What a kind's command would have run."""
    found: list[Options] = []
    group = BenchGroup(params=bench.params, callback=bench.callback)
    for kind in KINDS:
        group.add_command(kind_command(kind, found.append))
    group.main(line.split(), prog_name="bench", standalone_mode=False)
    return found[0]


@pytest.mark.parametrize("name", list(BY_NAME))
def test_defaults_of_every_kind_and_alias(name: str) -> None:
    options = parsed(name)
    assert (
        options.producers,
        options.consumers,
        options.groups,
        options.streams,
        options.partitions,
    ) == DEFAULTS[options.kind.name]
    assert options.message_size == options.messages_per_batch == Range(1000, 1000)
    assert options.message_batches == 1000
    assert (options.warmup_ns, options.sampling_ns, options.window) == (0, 10_000_000, 20)
    assert options.address is None
    assert options.rate_limit is None


def test_a_command_line_of_iggy_bench() -> None:
    options = parsed(
        "-m 100..200 -P 10 -T 1GB -r 10MB -w 2s -u me -p secret pinned-producer "
        "-p 4 -s 2 -a 3 -T 5GB tcp --server-address 10.0.0.5:8090 --nodelay "
        "output -o results --remark first --gitref abc"
    )
    assert options.message_size == Range(100, 200)
    assert options.messages_per_batch == Range(10, 10)
    assert (options.total_data, options.message_batches) == (10**9, None)
    assert options.rate_limit == 10_000_000
    assert options.warmup_ns == 2 * 10**9
    assert (options.producers, options.streams, options.partitions) == (4, 2, 3)
    assert options.max_topic_size == 5 * 10**9
    assert options.address == ("10.0.0.5", 8090)
    assert (options.credentials.username, options.credentials.password) == ("me", "secret")
    assert "secret" not in repr(options)
    assert str(options.output.directory) == "results"
    assert (options.output.remark, options.output.gitref) == ("first", "abc")


def test_common_options_behind_the_kind_win() -> None:
    options = parsed("-m 100 -b 5 pp -m 200 --password x --no-output")
    assert options.message_size == Range(200, 200)
    assert options.message_batches == 5
    assert options.credentials.password == "x"
    assert options.output.directory is None


@pytest.mark.parametrize(
    ("line", "transport"),
    [
        ("pp", "tcp"),
        ("pp --tls", "tls"),
        ("pp websocket", "ws"),
        ("pp ws --tls", "wss"),
        ("pp http", "http"),
        ("pc --transport http", "http"),
        ("pp --transport http-json", "http-json"),
        ("bcg --transport wss", "wss"),
        ("bcg --transport quic", "quic"),
    ],
)
def test_transports(line: str, transport: str) -> None:
    assert parsed(line).transport == transport


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("pp -b 5 --duration 1s", "exclude each other"),
        ("pp --total-data 5MB --duration 1s", "exclude each other"),
        ("pp tcp nonsense", "neither a transport nor"),
        ("pp --high-level-api", "not offered"),
        ("pp --tls --transport http", "not measured together"),
        ("pp quic", "no QUIC yet"),
        ("pp tcp --transport ws", "one of them is enough"),
        ("pp --transport http --server-address 127.0.0.1:1", "on a broker of our own only"),
        ("pp --transport quic --generation 0.9", "quic has no generations"),
        ("bcg --transport http", "without HTTP only"),
        ("pp -c 5", "No such option"),
        ("pc -p 5", "No such option"),
        ("pp -m 5..4", "no range"),
        ("pp --server-address nowhere", "no address"),
        ("pp -p 0", "not in the range"),
    ],
)
def test_what_does_not_fit(line: str, reason: str) -> None:
    with pytest.raises(click.UsageError, match=reason):
        parsed(line)


@pytest.mark.parametrize(
    "word", ["limit", "targets", "compare", "seed", "scale", "soak-memory", "tails"]
)
def test_every_command_explains_itself(word: str) -> None:
    result = CliRunner().invoke(bench, [word, "--help"])
    assert result.exit_code == 0
    assert "Usage" in result.output


def test_examples_are_command_lines_that_parse() -> None:
    result = CliRunner().invoke(bench, ["examples"])
    lines = [line.removeprefix("borzoi bench ") for line in result.output.splitlines()]
    assert len(lines) > 3
    for line in lines:
        if "compare" not in line:
            parsed(line)


def test_unknown_rows_are_named() -> None:
    result: Any = CliRunner().invoke(bench, ["targets", "--only", "nothing"])
    assert result.exit_code == 2
    assert "produce-large" in result.output
