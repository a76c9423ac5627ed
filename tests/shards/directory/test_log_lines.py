"""Lines of the log: their form, their bounds, and that nothing in them harms the broker."""

import json
import logging
import os
import re
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from borzoi.shards.directory.log_file import LOG_NAME, LogFile, Rotation
from borzoi.shards.directory.log_lines import (
    LINE_LENGTH_MAX,
    OFF,
    TRACE,
    LineFormatter,
    LineHandler,
    chosen_level,
    level_text,
    set_up_logging,
    shard_speaker,
)
from borzoi.shards.settings.schema import Logging


def record(message: str, *args: object, level: int = logging.INFO) -> logging.LogRecord:
    made = logging.LogRecord(
        "borzoi.shards.serving.session", level, "session.py", 7, message, args, None
    )
    made.created = 1_800_000_000.25
    return made


def line(message: str, *, json: bool = False, level: int = logging.INFO) -> bytes:
    return LineFormatter("shard-0", json=json).line(record(message, level=level))


@pytest.fixture
def root_logger() -> Iterator[logging.Logger]:
    """The root logger is everybody's: what the test does to it is undone."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    for handler in handlers:
        root.removeHandler(handler)
    yield root
    for handler in root.handlers[:]:
        root.removeHandler(handler)
        handler.close()
    for handler in handlers:
        root.addHandler(handler)
    root.setLevel(level)


def test_the_form_of_a_line() -> None:
    assert line("accepted") == (
        b"2027-01-15T08:00:00.250000Z  INFO shard-0 borzoi.shards.serving.session: accepted\n"
    )


@pytest.mark.parametrize(
    ("level", "text"),
    [
        (logging.CRITICAL, "ERROR"),
        (logging.ERROR, "ERROR"),
        (logging.WARNING, "WARN"),
        (logging.INFO, "INFO"),
        (logging.DEBUG, "DEBUG"),
        (TRACE, "TRACE"),
    ],
)
def test_levels_are_right_aligned(level: int, text: str) -> None:
    assert level_text(level) == text
    assert f"Z {text:>5} shard-0 ".encode() in line("x", level=level)


def test_the_time_is_kept_apart_from_second_to_second() -> None:
    formatter = LineFormatter("shard-0", json=False)
    first, second, third = record("a"), record("b"), record("c")
    second.created += 0.5
    third.created += 1
    assert [formatter.line(each)[17:26] for each in (first, second, third)] == [
        b"00.250000",
        b"00.750000",
        b"01.250000",
    ]


def test_control_characters_are_escaped() -> None:
    written = line("a\nb\rc\td\x00e\x1b[31mf\x7fg\x9bh\u2028i\u202ej\u2066 é")
    assert written.endswith(
        "a\\nb\\rc\\td\\x00e\\x1b[31mf\\x7fg\\x9bh\\u2028i\\u202ej\\u2066 é\n".encode()
    )
    assert written.count(b"\n") == 1


def test_half_a_surrogate_pair_is_shown() -> None:
    assert line("a\ud800b").endswith(b"a\\ud800b\n")


@pytest.mark.parametrize("character", ["x", "é", "\x00", "😀"])
@pytest.mark.parametrize("as_json", [False, True])
def test_lines_have_a_bounded_length(character: str, as_json: bool) -> None:
    written = line(character * 100_000, json=as_json)
    assert len(written) <= LINE_LENGTH_MAX
    assert written.endswith(b"\n")
    assert b"(cut)" in written
    written.decode()
    if as_json:
        json.loads(written)


def test_the_bound_itself() -> None:
    prefix = len(line("")) - 1
    fits = LINE_LENGTH_MAX - prefix - 1
    assert line("x" * fits).endswith(b"xx\n")
    assert len(line("x" * fits)) == LINE_LENGTH_MAX
    assert line("x" * (fits + 1)).endswith(b"... (cut)\n")
    assert len(line("x" * (fits + 1))) == LINE_LENGTH_MAX


def test_a_traceback_is_one_line() -> None:
    try:
        raise ValueError("why\nnot")
    except ValueError as error:
        made = record("failed")
        made.exc_info = (type(error), error, error.__traceback__)
    written = LineFormatter("shard-0", json=False).line(made)
    assert written.count(b"\n") == 1
    assert b"failed\\nTraceback" in written
    assert b"ValueError: why\\nnot" in written


def test_json_lines() -> None:
    written = line('a "b"\nc\x9b\u202e', json=True)
    assert written.endswith(b'"message":"a \\"b\\"\\nc\\u009b\\u202e"}\n')
    assert json.loads(written) == {
        "time": "2027-01-15T08:00:00.250000Z",
        "level": "INFO",
        "shard": "shard-0",
        "module": "borzoi.shards.serving.session",
        "message": 'a "b"\nc\x9b\u202e',
    }


@pytest.mark.parametrize(
    ("config", "variable", "level"),
    [
        ("info", None, logging.INFO),
        ("WARN", None, logging.WARNING),
        ("trace", None, TRACE),
        ("off", None, OFF),
        ("iggy=debug,error", None, logging.ERROR),
        ("info", "debug", logging.DEBUG),
        ("info", "iggy=trace,warn", logging.WARNING),
        ("error", "iggy=trace", logging.ERROR),
        ("error", "", logging.ERROR),
        ("nonsense", "more", logging.INFO),
    ],
)
def test_the_level(config: str, variable: str | None, level: int) -> None:
    environ = {} if variable is None else {"RUST_LOG": variable}
    assert chosen_level(config, environ) == level


def test_set_up_writes_file_and_standard_error(tmp_path: Path, root_logger: logging.Logger) -> None:
    read_fd, write_fd = os.pipe()
    set_up_logging(Logging(), tmp_path, shard_speaker(3), {}, stderr_fd=write_fd)
    logging.getLogger("borzoi.test").info("hello %s", "there")
    logging.getLogger("borzoi.test").debug("not this")
    os.close(write_fd)
    with open(read_fd, "rb") as pipe:
        on_stderr = pipe.read()
    assert (tmp_path / "logs" / LOG_NAME).read_bytes() == on_stderr
    assert re.fullmatch(
        rb"[-0-9]{10}T[:0-9]{8}\.[0-9]{6}Z  INFO shard-3 borzoi\.test: hello there\n", on_stderr
    )


def test_set_up_twice_speaks_once(tmp_path: Path, root_logger: logging.Logger) -> None:
    for _ in range(2):
        set_up_logging(Logging(), tmp_path, "supervisor", {}, stderr_fd=None)
    logging.getLogger().warning("once")
    assert (tmp_path / "logs" / LOG_NAME).read_bytes().count(b"once") == 1


def test_without_a_file(tmp_path: Path, root_logger: logging.Logger) -> None:
    config = msgspec.structs.replace(Logging(), file_enabled=False)
    set_up_logging(config, tmp_path, "supervisor", {}, stderr_fd=None).sweep()
    logging.getLogger().warning("nowhere")
    assert list(tmp_path.iterdir()) == []


def test_a_directory_that_cannot_be_used_does_not_stop_the_broker(
    tmp_path: Path, root_logger: logging.Logger
) -> None:
    (tmp_path / "logs").write_text("in the way")
    read_fd, write_fd = os.pipe()
    set_up_logging(Logging(), tmp_path, "supervisor", {}, stderr_fd=write_fd)
    os.close(write_fd)
    with open(read_fd, "rb") as pipe:
        assert b" WARN supervisor borzoi.shards.directory.log_lines: no log file: " in pipe.read()


class Unshowable:
    def __str__(self) -> str:
        raise RuntimeError("no")


def test_nothing_reaches_the_code_that_logged(tmp_path: Path) -> None:
    file = LogFile(tmp_path, Rotation(0, 0, 1e6, 1e6))
    handler = LineHandler(LineFormatter("shard-0", json=False), file, stderr_fd=None)
    handler.handle(record("%d", "no number"))
    handler.handle(record("%s", Unshowable()))
    handler.close()
    first, second = (tmp_path / LOG_NAME).read_text().splitlines()
    assert first.endswith("a log line of session.py:7 cannot be shown (TypeError)")
    assert second.endswith("(RuntimeError)")


class FullDisk(LogFile):
    full = True

    def write(self, line: bytes) -> None:
        if self.full:
            raise OSError(28, "No space left on device")
        super().write(line)


def test_lost_lines_are_counted_and_logged(tmp_path: Path) -> None:
    file = FullDisk(tmp_path, Rotation(0, 0, 1e6, 1e6))
    handler = LineHandler(LineFormatter("shard-0", json=False), file, stderr_fd=None)
    handler.handle(record("one"))
    handler.handle(record("two"))
    assert handler.lost_count == 2
    file.full = False
    handler.handle(record("three"))
    assert handler.lost_count == 0
    handler.close()
    count_line, third = (tmp_path / LOG_NAME).read_text().splitlines()
    assert count_line.endswith("2 log lines could not be written")
    assert third.endswith("three")


def test_standard_error_that_is_gone(tmp_path: Path) -> None:
    read_fd, write_fd = os.pipe()
    os.close(read_fd)
    handler = LineHandler(LineFormatter("shard-0", json=False), None, stderr_fd=write_fd)
    handler.handle(record("nothing reads this"))
    os.close(write_fd)
    handler.handle(record("nor this"))
    handler.close()
