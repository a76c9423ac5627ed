"""What helps along the way: help, suggestions, completion, units, top, demo, doctor."""

import json
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from borzoi.main import PLACES, main
from tests.broker import BrokerProcess
from tests.conftest import NewBroker
from tests.first_hour.conftest import PROGRAM, CommandLine
from tests.integration.launching import environment
from tests.shard_wires import ONE_SHARD

pytestmark = pytest.mark.slow

IGGY_VERBS = """
stream create delete get list update purge
topic create delete get list update purge
partition create delete
segment delete
pat create delete list
user create delete get list name status password permissions
client get list
cluster metadata
consumer-group create delete get list
consumer-offset get set
message send poll flush
context list use create delete
"""
IGGY_ALONE = ("ping", "me", "stats", "snapshot", "login", "logout")


def test_all_verbs_of_iggy_are_there(cli: CommandLine) -> None:
    asked = list(IGGY_ALONE)
    for line in IGGY_VERBS.strip().splitlines():
        noun, *verbs = line.split()
        shown = cli.says(noun, "--help")
        for verb in verbs:
            assert f"\n  {verb} " in shown, (noun, verb)
            asked.append(f"{noun} {verb}")
    shown = cli.says("--help")
    for alone in IGGY_ALONE:
        assert f"\n  {alone} " in shown
    assert len(asked) == 48


def test_every_command_is_in_the_help_and_none_is_loaded_for_it(cli: CommandLine) -> None:
    shown = cli.says("--help")
    assert all(f"\n  {name} " in shown for name in PLACES)
    code = (
        "import sys; from borzoi.main import main; main(['--help'], standalone_mode=False);"
        " print(*[one for one in sys.modules if one.startswith('borzoi.')])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    loaded = done.stdout.splitlines()[-1].split()
    assert sorted(loaded) == ["borzoi.main", "borzoi.terminal", "borzoi.visible"]


@pytest.mark.parametrize("words", [(), ("stream",), ("archive",), ("config",)])
def test_a_group_without_a_verb_shows_its_help(cli: CommandLine, words: tuple[str, ...]) -> None:
    done = cli.run(*words)
    lines = (done.stdout + done.stderr).decode().splitlines()
    assert lines[0].startswith(" ".join(("Usage: borzoi", *words)))
    assert sum(line.startswith("  ") for line in lines) > 3


def test_a_missing_verb_is_an_error_in_json(cli: CommandLine) -> None:
    for words in (("--json",), ("--json", "stream")):
        done = cli.run(*words)
        assert done.returncode == 2
        error = {"message": "Missing command.", "name": "UsageError"}
        assert json.loads(done.stderr) == {"error": error}


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_holds_the_words(cli: CommandLine, shell: str) -> None:
    script = cli.says("completion", shell)
    assert cli.says("--generate", shell) == script
    assert "consumer-group" in script
    assert "create" in script


def test_completion_completes_in_bash(cli: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "words").write_text(cli.says("completion", "bash"))
    asked = 'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _borzoi;'
    for words, wanted in (
        (("borzoi", "consumer-g"), "consumer-group"),
        (("borzoi", "stream", "cr"), "create"),
        (("borzoi", "--json", "topic", "pu"), "purge"),
    ):
        done = subprocess.run(
            ["bash", "-c", asked + ' printf "%s " "${COMPREPLY[@]}"', "-", tmp_path / "words",
             *words],
            capture_output=True, text=True, check=True, timeout=30,
        )  # fmt: skip
        assert done.stdout.split() == [wanted]


def test_lines_have_units_words_and_a_zone(cli: CommandLine, stocked: str) -> None:
    cli.says("topic", "create", stocked, "timed", "1", "zstd", "1h", "30m", "-m", "2GiB")
    shown = cli.says("topic", "get", stocked, "timed")
    assert "message_expiry         1 h 30 min\n" in shown
    assert "max_topic_size         2 GiB\n" in shown
    assert "compression_algorithm  zstd\n" in shown
    assert "Z\n" in shown.split("created_at")[1][:45]
    as_json = json.loads(cli.says("topic", "get", stocked, "timed", "--json"))
    assert as_json["message_expiry"] == 5_400_000_000
    stats = cli.says("stats")
    assert "18446744073709551615" not in stats
    assert " MiB\n" in stats.split("memory_usage")[1][:40]
    cli.says("pat", "create", "lasting")
    assert "\nlasting  never\n" in cli.says("pat", "list")
    cli.says("pat", "delete", "lasting")


def test_nothing_acts_on_the_terminal(cli: CommandLine) -> None:
    cli.says("stream", "create", "esc\x1b[2J")
    assert "\x1b" not in cli.says("stream", "list")
    assert r"esc\x1b[2J" in cli.says("stream", "list")
    cli.says("stream", "delete", "esc\x1b[2J")


def test_segments_that_go_are_counted(cli: CommandLine, stocked: str) -> None:
    said = cli.says("segment", "delete", stocked, "events", "0", "1")
    assert said.startswith("nothing is deleted: partition 0 of depot/events has 1 segment;")


def test_a_demo_and_what_top_shows_of_it(cli: CommandLine) -> None:
    said = json.loads(cli.says("--json", "demo", "--count", "60", "--rate", "1000"))
    assert said["messages"] == 60
    orders = cli.says("tail", "demo/orders", "--from", "first", "--format", "json").splitlines()
    sensors = cli.says("tail", "demo/sensors", "--from", "first", "--format", "json").splitlines()
    assert (len(orders), len(sensors)) == (30, 30)
    order = json.loads(orders[0])
    assert json.loads(order["payload"])["customer"] == order["headers"]["key"]
    cli.says("consumer-group", "create", "demo", "orders", "billing")
    look = json.loads(cli.says("top", "--json"))
    assert [(one["shard"], one["up"]) for one in look["shards"]] == [(0, True)]
    assert look["shards"][0]["memory_usage"] > 10_000_000
    (topic,) = [one for one in look["topics"] if one["topic"] == "demo/orders"]
    assert topic["messages"] == 30
    assert look["groups"] == [{"group": "billing", "topic": "demo/orders", "members": 0, "lag": 30}]
    assert "billing  demo/orders  0        30" in cli.says("top", "--once")
    cli.says("stream", "delete", "demo")


def test_a_doctor_finds_what_stops_a_start(tmp_path: Path, shared_broker: BrokerProcess) -> None:
    def examined(**settings: str) -> tuple[int, dict[str, dict[str, str]]]:
        done = subprocess.run(
            [*PROGRAM, "doctor", "--json"],
            env=environment(tmp_path / "data", settings),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert "Traceback" not in done.stderr
        return done.returncode, {one["subject"]: one for one in json.loads(done.stdout)}

    code, found = examined()
    assert code == 0
    assert found["data directory"]["verdict"] == "fine"
    assert not (tmp_path / "data").exists()
    code, found = examined(IGGY_TCP_ADDRESS=shared_broker.address)
    assert code == 1
    assert found["port of tcp"]["verdict"] == "bad"
    assert "IGGY_TCP_ADDRESS names another address" in found["port of tcp"]["remedy"]
    code, found = examined(IGGY_SYSTEM_PATH=str(tmp_path / "no" / "disk"))
    assert (code, found["data directory"]["verdict"]) == (1, "bad")
    code, found = examined(IGGY_SYSTEM_SEGMENT_SIZE="7")
    assert (code, list(found)) == (1, ["configuration"])
    assert "system.segment.size" in found["configuration"]["found"]
    code, found = examined(IGGY_SYSTEM_PATH=str(shared_broker.data))
    assert code == 0
    assert "in use by a running broker" in found["data directory"]["found"]


def test_an_archive_that_is_not_there_is_an_error(cli: CommandLine, tmp_path: Path) -> None:
    for words in (("ls",), ("verify",), ("restore", "--into", str(tmp_path / "new"))):
        done = cli.run("archive", *words, "--path", str(tmp_path))
        assert (done.returncode, done.stdout) == (1, b"")
        assert f"{tmp_path} holds no archive" in done.stderr.decode()


def test_doors_that_are_closed_are_not_shown(new_broker: NewBroker, tmp_path: Path) -> None:
    broker = new_broker(**ONE_SHARD, IGGY_HTTP_ENABLED="false", IGGY_WEBSOCKET_ENABLED="false")
    cli = CommandLine(f"iggy://iggy:iggy@{broker.address}", tmp_path / "home")
    (node,) = json.loads(cli.says("--json", "cluster", "metadata"))["nodes"]
    assert node["tcp_port"] == broker.port
    assert (node["http_port"], node["quic_port"], node["websocket_port"]) == (0, 0, 0)


def test_lists_and_numbers_in_iggys_forms(cli: CommandLine, stocked: str) -> None:
    shown = cli.says("topic", "list", stocked, "-l", "list")
    assert "\nname                   events\n" in f"\n{shown}"
    assert tomllib.loads(cli.says("stats", "-o", "toml"))["server_version"] == "0.8.0"
    assert json.loads(cli.says("stats", "-o", "json"))["server_version"] == "0.8.0"


def commands_of(
    command: click.Command, words: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every command that does something, with its words."""
    if not isinstance(command, click.Group):
        yield words, command
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        found = command.get_command(context, name)
        assert found is not None
        yield from commands_of(found, (*words, name))


def test_every_command_takes_json_but_those_that_print_something_else() -> None:
    found = dict(commands_of(main))
    without = {
        words[0]
        for words, command in found.items()
        if not any("--json" in option.opts for option in command.params)
    }
    assert without == {"bench", "completion", "test"}
    assert len(found) > 60


def test_every_kind_of_command_speaks_json(cli: CommandLine, tmp_path: Path) -> None:
    shown = json.loads(cli.says("--json", "config", "show"))
    assert shown["tcp"]["address"] == "127.0.0.1:8090"
    (tmp_path / "bad.toml").write_text("[tcp]\nadress = 1\n")
    checked = cli.run("config", "check", "--json", str(tmp_path / "bad.toml"))
    assert checked.returncode == 1
    assert "tcp.address" in json.loads(checked.stdout)["problems"][0]
    for words in (
        ("archive", "ls", "--path", str(tmp_path)),
        ("archive", "restore", "--path", str(tmp_path), "--into", str(tmp_path / "new")),
        ("stream", "get", "nosuch"),
        ("serve", "--config", "/nosuch.toml"),
        ("strem",),
    ):
        done = cli.run("--json", *words)
        assert done.returncode != 0
        assert json.loads(done.stderr.splitlines()[-1])["error"]["message"], words
    failed = cli.run("--json", "serve", IGGY_TCP_ADDRESS="nowhere")
    assert "tcp.address" in json.loads(failed.stderr)["error"]["problems"][0].lower().replace(
        "iggy_tcp_address", "tcp.address"
    )
