"""Reports of dead workers: what they say, what they keep to themselves, how many are kept."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from borzoi.protocol.codes import Code
from borzoi.protocol.identifiers import PartitionId
from borzoi.protocol.message import Message
from borzoi.protocol.send_messages import encode_send_messages
from borzoi.shards.faults.crash_reports import (
    REPORTS_MAX,
    CrashReports,
    Death,
    describe,
    new_trace,
    read_trace,
    signal_name,
)
from borzoi.shards.faults.in_work import RequestInWork

NOW_S: Final = 1_800_000_000.25
PASSWORD: Final = b"open sesame"


def death_with(request: RequestInWork | None, shard: int = 3) -> Death:
    return Death(shard, 2, 4711, signal.SIGBUS, 12.34, request, "Fatal Python error: Bus error\n")


def test_what_a_report_says() -> None:
    head = b"\x01\x01\x04\x01\0\0\0\x02\x06orders\x02\x01t\x1b[31m"
    text = describe(death_with(RequestInWork(100, 300, head, 1)), NOW_S)
    assert "shard 3, generation 2, process 4711" in text
    assert "ended by SIGBUS (7) at 2027-01-15T08:00:00Z after 12.3 s" in text
    assert "POLL_MESSAGES (100), 300 bytes, user 1" in text
    assert head.hex(" ") in text
    assert "orders" in text
    assert "\x1b" not in text
    assert text.endswith("Fatal Python error: Bus error\n")
    assert "not logged in" in describe(death_with(RequestInWork(77, 0, b"", None)), NOW_S)
    assert "unknown (77)" in describe(death_with(RequestInWork(77, 0, b"", None)), NOW_S)
    assert "no request" in describe(death_with(None), NOW_S)
    silent = death_with(None)._replace(trace="", number=signal.SIGKILL)
    assert "left no traceback" in describe(silent, NOW_S)
    assert signal_name(63) == "signal 63"


def test_passwords_and_messages_are_not_in_a_report() -> None:
    for code in Code:
        if "USER" in code.name or "TOKEN" in code.name or "PASSWORD" in code.name:
            text = describe(death_with(RequestInWork(code, 50, PASSWORD, None)), NOW_S)
            assert PASSWORD.decode() not in text, code
            assert PASSWORD.hex(" ") not in text, code
    payload = encode_send_messages("s", "t", PartitionId(0), [Message(PASSWORD)])
    request = RequestInWork(Code.SEND_MESSAGES, len(payload), payload, 1)
    assert PASSWORD.hex(" ") not in describe(death_with(request), NOW_S)
    assert payload[:8].hex(" ") in describe(death_with(request), NOW_S)


def test_the_newest_are_kept(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    reports = CrashReports(logs)
    written = [
        reports.write(death_with(None, shard=number % 3), NOW_S + number)
        for number in range(REPORTS_MAX + 5)
    ]
    (logs / "iggy-server.log").touch()
    reports.write(death_with(None), NOW_S + 1000)
    kept = set(logs.glob("*.crash"))
    assert len(kept) == REPORTS_MAX
    assert set(written[-REPORTS_MAX + 1 :]) < kept
    assert (logs / "iggy-server.log").exists()
    assert all(path.stat().st_mode & 0o027 == 0 for path in kept)


def test_a_directory_that_cannot_be_written_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "logs").touch()
    assert CrashReports(tmp_path / "logs").write(death_with(None), NOW_S) is None
    assert "no report of the death of shard 3" in caplog.text


def test_a_dying_process_leaves_its_traceback() -> None:
    fd = new_trace()
    code = (
        "import sys, os, signal\n"
        "from borzoi.shards.faults.crash_reports import trace_into\n"
        "trace_into(int(sys.argv[1]))\n"
        "def dies_here(): os.kill(os.getpid(), signal.SIGSEGV)\n"
        "dies_here()\n"
    )
    child = subprocess.run(
        [sys.executable, "-c", code, str(fd)], pass_fds=(fd,), check=False, timeout=60
    )
    assert child.returncode == -signal.SIGSEGV
    assert "Segmentation fault" in read_trace(fd)
    assert "dies_here" in read_trace(fd)
    os.close(fd)
