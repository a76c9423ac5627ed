"""Messages from pipes and files: as they come, with the bytes they have, in bounded memory."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import psutil
import pytest

from tests.broker import wait_for
from tests.first_hour.conftest import CommandLine

pytestmark = pytest.mark.slow

MEMORY_MAX = 150 * 1024 * 1024
MANY = 300_000


def payloads(cli: CommandLine, topic: str) -> list[str]:
    lines = cli.says("tail", f"pipes/{topic}", "-n", "100", "--format", "payload").splitlines()
    return lines


@pytest.fixture
def topic(cli: CommandLine, tmp_path: Path) -> str:
    cli.run("stream", "create", "pipes")
    name = tmp_path.name
    cli.says("topic", "create", "pipes", name, "1")
    return name


def test_bytes_travel_as_they_are(cli: CommandLine, topic: str) -> None:
    assert "1 message is sent" in cli.says(
        "message", "send", "pipes", topic, stdin=b"bin\0\xff\xfe"
    )
    done = cli.run(
        "message", "poll", "pipes", topic, "0", "--first", "--raw", "--format", "payload"
    )
    assert done.stdout == b"bin\0\xff\xfe\n"


def test_lines_are_sent_while_others_are_awaited(cli: CommandLine, topic: str) -> None:
    sending = cli.start("message", "send", "pipes", topic)
    assert sending.stdin is not None
    sending.stdin.write(b"first\n\n")
    sending.stdin.flush()
    wait_for(lambda: payloads(cli, topic) == ["first"])
    sending.stdin.write(b"second")
    out, err = sending.communicate(timeout=60)
    assert (sending.returncode, err) == (0, b"")
    assert out == b"2 messages are sent, 1 empty line is left out\n"
    assert payloads(cli, topic) == ["first", "second"]


def test_much_is_sent_in_bounded_memory(cli: CommandLine, topic: str) -> None:
    sending = cli.start("message", "send", "pipes", topic)
    assert sending.stdin is not None
    process = psutil.Process(sending.pid)
    most = 0
    for start in range(0, MANY, 10_000):
        sending.stdin.write(b"".join(b"%d\n" % n for n in range(start, start + 10_000)))
        most = max(most, process.memory_info().rss)
    out, _ = sending.communicate(timeout=120)
    assert out == b"%d messages are sent\n" % MANY
    assert most < MEMORY_MAX


def test_files_are_sent_whole_and_several(cli: CommandLine, topic: str, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"several\nlines")
    (tmp_path / "b").write_bytes(b"\xff")
    files = ("--file", str(tmp_path / "a"), "--file", str(tmp_path / "b"))
    said = json.loads(cli.says("--json", "message", "send", "pipes", topic, *files))
    assert said == {"message": "2 messages are sent", "messages": 2, "empty_lines": 0}
    assert payloads(cli, topic) == [r"several\nlines", r"\xff"]


def test_ctrl_c_ends_at_once_while_a_line_is_awaited(cli: CommandLine, topic: str) -> None:
    sending = cli.start("message", "send", "pipes", topic)
    assert sending.stdin is not None
    sending.stdin.write(b"first\n")
    sending.stdin.flush()
    wait_for(lambda: payloads(cli, topic) == ["first"])
    ends_at_once(sending)


def test_ctrl_c_ends_at_once_while_messages_are_awaited(cli: CommandLine, topic: str) -> None:
    cli.says("message", "send", "pipes", topic, "first")
    following = cli.start("tail", "-f", f"pipes/{topic}")
    assert following.stdout is not None
    assert b"first" in following.stdout.readline()
    ends_at_once(following)


def test_ctrl_c_ends_at_once_at_a_prompt(cli: CommandLine) -> None:
    ours, theirs = os.openpty()
    asking = cli.start("--server", "127.0.0.1:1", "-u", "anna", "stream", "list", stdin=theirs)
    os.close(theirs)
    assert asking.stderr is not None
    os.set_blocking(asking.stderr.fileno(), False)
    heard = bytearray()

    def is_asked() -> bool:
        heard.extend(asking.stderr.read() or b"" if asking.stderr is not None else b"")
        return b"Password of anna" in heard

    wait_for(is_asked)
    ends_at_once(asking)
    os.close(ours)


def ends_at_once(process: subprocess.Popen[bytes]) -> None:
    """One signal is enough, and nothing has to come for it to count."""
    began = time.monotonic()
    process.send_signal(signal.SIGINT)
    code = process.wait(20)
    assert code in (1, 130), (code, time.monotonic() - began)
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()


@pytest.mark.parametrize(
    ("words", "lines"),
    [
        (("--from", "1"), ["two", "three"]),
        (("--from", "first", "--filter", "t"), ["two", "three"]),
        (("--from", "first", "--filter", "/^o/"), ["one"]),
        (("--from", "1h", "-c", "1"), ["one"]),
        (("-n", "1"), ["three"]),
    ],
)
def test_tail_begins_where_it_is_asked_to(
    cli: CommandLine, topic: str, words: tuple[str, ...], lines: list[str]
) -> None:
    cli.says("message", "send", "pipes", topic, "one", "two", "three")
    shown = cli.says("tail", f"pipes/{topic}", "--format", "payload", *words).splitlines()
    assert shown == lines
