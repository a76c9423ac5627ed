"""Names and payloads that would drive a terminal or forge a line: every place that shows them.

A server is as little to be trusted as a file: what it answers is escaped here, by the client that
shows it, whatever the server lets through.
"""

import json
import re
import unicodedata
from pathlib import Path
from typing import Final

import click
import pytest
from click.testing import CliRunner, Result

from borzoi.bench.main import bench
from borzoi.bench.tables import new_console
from borzoi.main import main
from borzoi.protocol.commands import CreateUser
from borzoi.protocol.permissions import UserStatus
from borzoi.shards.admin.check_report import text_lines
from borzoi.shards.admin.commands import iggy_server
from borzoi.storage.findings import Findings
from tests.broker import BrokerProcess
from tests.client.scripted_server import Answer, scripted_in_a_thread
from tests.topics import make_topic
from tests.wire import Wire, send_frame

NAMES: Final = ("\x1b]0;owned\x07", "line\nbreak", "\u202egpj.exe", "c1\x9b31m", "sep\u2028x")
SHOWN: Final = (
    r"\x1b]0;owned\x07",
    r"line\nbreak",
    r"\u202egpj.exe",
    r"c1\x9b31m",
    r"sep\u2028x",
)
PAYLOAD: Final = b"\x1b[2J\xff\r\nforged\x9b"
PAYLOAD_SHOWN: Final = r"\x1b[2J\xff\r\nforged\x9b"
ACTING: Final = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")


def run(broker: BrokerProcess, *words: str, stdin: bytes | None = None) -> Result:
    address = f"iggy://iggy:iggy@{broker.address}"
    return CliRunner().invoke(main, words, env={"BORZOI_SERVER": address}, input=stdin)


def is_harmless(result: Result) -> bool:
    assert "Traceback" not in result.output
    return ACTING.search(result.output) is None


@pytest.fixture(scope="module")
def filled_broker(shared_broker: BrokerProcess) -> BrokerProcess:
    """Streams, topics and a user whose names act, and messages whose payloads do."""
    with Wire(shared_broker) as wire:
        for name in NAMES:
            make_topic(wire, name, name)
            wire.put(send_frame(name, name, [PAYLOAD]))
            assert wire.answer().status == 0
        assert wire.answer_to(CreateUser(NAMES[0], "secret", UserStatus.ACTIVE, None)).status == 0
    return shared_broker


def test_lists_and_cards(filled_broker: BrokerProcess) -> None:
    listed = run(filled_broker, "stream", "list")
    assert is_harmless(listed)
    assert len(listed.stdout.splitlines()) == 1 + len(NAMES)
    assert all(shown in listed.stdout for shown in SHOWN)
    # The escaped names are what columns are as wide as.
    assert len({line.rindex("  ") for line in listed.stdout.splitlines()}) == 1
    for name, shown in zip(NAMES, SHOWN, strict=True):
        for words in (
            ("stream", "get", name),
            ("topic", "list", name),
            ("topic", "get", name, name),
            ("stream", "update", name, name),
        ):
            result = run(filled_broker, *words)
            assert result.exit_code == 0, result.stderr
            assert shown in result.stdout
            assert is_harmless(result)
    users = run(filled_broker, "user", "list")
    assert SHOWN[0] in users.stdout
    assert is_harmless(users)


def test_payloads(filled_broker: BrokerProcess) -> None:
    name = NAMES[0]
    polled = run(filled_broker, "message", "poll", name, name, "0", "-f")
    tailed = run(filled_broker, "tail", f"{name}/{name}")
    for result in (polled, tailed):
        assert is_harmless(result)
        assert result.stdout.rstrip("\n").endswith(PAYLOAD_SHOWN)
    assert len(tailed.stdout.splitlines()) == 1


def test_raw_writes_the_bytes_as_they_are(filled_broker: BrokerProcess) -> None:
    name = NAMES[0]
    polled = run(filled_broker, "message", "poll", name, name, "0", "-f", "--raw")
    tailed = run(filled_broker, "tail", f"{name}/{name}", "--raw")
    for result in (polled, tailed):
        assert result.stdout_bytes.endswith(PAYLOAD + b"\n")
    listed = run(filled_broker, "stream", "list", "--raw")
    assert all(one.encode() in listed.stdout_bytes for one in NAMES)
    both = run(filled_broker, "stream", "list", "--raw", "--json")
    assert both.exit_code == 2
    assert "at most one" in both.stderr


def test_json_can_be_read_back(filled_broker: BrokerProcess) -> None:
    listed = run(filled_broker, "stream", "list", "--json")
    assert is_harmless(listed)
    assert [one["name"] for one in json.loads(listed.stdout)] == list(NAMES)
    tailed = run(filled_broker, "tail", f"{NAMES[0]}/{NAMES[0]}", "--json")
    assert "payload_base64" in json.loads(tailed.stdout)


@pytest.mark.parametrize("name", NAMES)
def test_errors(filled_broker: BrokerProcess, name: str) -> None:
    missing = f"no {name}"
    for words in (
        ("stream", "get", missing),
        ("stream", "delete", missing),
        ("consumer-offset", "get", missing, name, name, "0"),
        ("topic", "create", name, "t", "1", "none", missing),
        ("tail", missing),
        (f"--{missing}",),
        (missing,),
        ("stream", missing),
        ("stream", "list", f"--{missing}"),
        ("config", "check", missing),
        ("check", missing),
        ("archive", "ls", "--path", missing),
    ):
        result = run(filled_broker, *words)
        assert result.exit_code != 0, words
        assert is_harmless(result), words
        # Click's usage and ours of the archive stand before it.
        assert result.stderr.rstrip("\n").split("\n")[-1].startswith(("Error: ", "borzoi: ")), words


@pytest.mark.parametrize("command", [main, bench, iggy_server])
def test_errors_of_every_program(command: click.Command) -> None:
    result = CliRunner().invoke(command, ["--\x1b]0;owned\x07"])
    assert result.exit_code == 2
    assert is_harmless(result)


def test_what_a_false_server_says() -> None:
    """A server need not check what it answers."""
    with scripted_in_a_thread(Answer(b"\x01\x00\x00\x00\x00\x00\x00\x00")) as server:
        result = CliRunner().invoke(
            main, ["stream", "list"], env={"BORZOI_SERVER": f"iggy://a:b@{server.address}"}
        )
    assert result.exit_code == 1
    assert is_harmless(result)


def test_the_log_of_the_broker(filled_broker: BrokerProcess) -> None:
    """A line break in the name of a user who tries to log in begins no line."""
    forged = "x\n2030-01-01T00:00:00.0Z  INFO \x1b[2J\u202e"
    words = ("stream", "list", "--username", forged, "--password", "wrong")
    CliRunner().invoke(main, [*words, "--server", filled_broker.address])
    logged = filled_broker.output()
    assert r"x\n2030-01-01T00:00:00.0Z  INFO \x1b[2J\u202e" in logged
    assert ACTING.search(logged) is None
    assert not [line for line in logged.split("\n") if line.startswith("2030-01-01")]


def test_a_data_directory_with_such_a_name(tmp_path: Path) -> None:
    place = tmp_path / NAMES[0]
    place.mkdir()
    (place / "config\x1b.toml").write_text("[tcp]\n'\x1b' = 1\n".replace("\x1b", "\\u001b"))
    for words in (
        ("check", str(place)),
        ("compression", str(place)),
        ("archive", "ls", "--path", str(place)),
        ("config", "check", str(place / "config\x1b.toml")),
    ):
        result = CliRunner().invoke(main, words)
        assert is_harmless(result), words


def test_the_report_of_a_check() -> None:
    assert len(text_lines("a\nb", Findings(repair=False))) == 2


def test_tables_of_the_bench(capsys: pytest.CaptureFixture[str]) -> None:
    console = new_console()
    console.print(f"warning: {NAMES[0]} {NAMES[2]}")
    said = capsys.readouterr().out
    assert ACTING.search(said) is None
    assert SHOWN[0] in said


def test_bytes_that_are_no_text_can_be_sent(filled_broker: BrokerProcess) -> None:
    name = NAMES[1]
    sent = run(filled_broker, "message", "send", name, name, stdin=b"bin\x00\xff\xfe\r\nlast\x85")
    assert sent.exit_code == 0, sent.stderr
    polled = run(filled_broker, "message", "poll", name, name, "0", "-l", "-m", "2", "--raw")
    assert b"bin\x00\xff\xfe\r\n" in polled.stdout_bytes
    assert polled.stdout_bytes.endswith(b"last\x85\n")
    argument = run(filled_broker, "message", "send", name, name, "a\udcffb")
    assert argument.exit_code == 0, argument.stderr
    tailed = run(filled_broker, "tail", f"{name}/{name}", "-n", "1")
    assert tailed.stdout.endswith("a\\xffb\n")
    for verb in ("create", "get"):
        refused = run(filled_broker, "stream", verb, "a\udcffb")
        assert refused.exit_code == 1
        assert "cannot be written as UTF-8" in refused.stderr


def test_the_needle() -> None:
    acting = {"\x1b", "\x9b", "\u202e", "\u2066", "\u2028", "\x7f", "\r"}
    assert all(ACTING.search(one) for one in acting)
    assert not any(ACTING.search(one) for one in ("a", "\n", "é", "東"))
    assert unicodedata.bidirectional("\u2066") == "LRI"
