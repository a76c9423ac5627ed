"""What a line of the log looks like, and the set-up of logging in every process of the broker.

    2026-11-16T05:08:00.123456Z  INFO shard-0 borzoi.shards.serving.session: connection accepted

Time in UTC with microseconds, level right-aligned to five characters, the speaker (`shard-<n>` or
`supervisor`), the module, the message. Iggy's tools look for "INFO shard-". With JSON lines the
same fields are the members of an object.

Always: one record is one line of bounded length in which nothing acts on its reader (visible.py),
whatever a client put into a name. A record below the level costs one comparison. Nothing that goes
wrong here reaches the code that logged. Lines that could not be written are counted, and the count
is logged later.
"""

from __future__ import annotations

import contextlib
import logging
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from borzoi.quantities import seconds
from borzoi.shards.directory.log_file import LogFile, Rotation
from borzoi.shards.settings.schema import Logging
from borzoi.visible import visible, visible_json

LEVEL_VARIABLE: Final = "RUST_LOG"
TRACE: Final = 5
OFF: Final = logging.CRITICAL + 10
LEVELS: Final = {
    "trace": TRACE,
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warn": logging.WARNING,
    "warning": logging.WARNING,
    "error": logging.ERROR,
    "off": OFF,
}

# A line, newline included. Tracebacks are the only long ones; their end is what matters least.
LINE_LENGTH_MAX: Final = 8192
CUT_MARK: Final = b"... (cut)"
STDERR: Final = 2

MODULE_LENGTH_MAX: Final = 200


def chosen_level(config_level: str, environ: Mapping[str, str]) -> int:
    """RUST_LOG over the configuration. Of "warn,iggy=debug" only the plain level counts."""
    for text in (environ.get(LEVEL_VARIABLE, ""), config_level):
        for directive in text.split(","):
            level = LEVELS.get(directive.strip().lower())
            if level is not None:
                return level
    return logging.INFO


class LineFormatter:
    """From a record to the bytes of its line."""

    def __init__(self, speaker: str, *, json: bool) -> None:
        self._speaker = speaker
        self._json = json
        self._tracebacks = logging.Formatter()
        self._second = -1
        self._second_text = ""

    def line(self, record: logging.LogRecord) -> bytes:
        """Returns the bytes of one line, at most LINE_LENGTH_MAX of them."""
        message = record.getMessage()
        if record.exc_info:
            message += "\n" + self._tracebacks.formatException(record.exc_info)
        stamp = self._time(record.created)
        level = level_text(record.levelno)
        if self._json:
            return self._json_line(stamp, level, record.name, message)
        # Cut before escaping too: a message of a gigabyte must not become four of them.
        text = f"{stamp} {level:>5} {self._speaker} {record.name}: {message[:LINE_LENGTH_MAX]}"
        line = visible(text).encode()
        if len(line) < LINE_LENGTH_MAX and len(message) <= LINE_LENGTH_MAX:
            return line + b"\n"
        line = line[: LINE_LENGTH_MAX - len(CUT_MARK) - 1]
        return line.decode(errors="ignore").encode() + CUT_MARK + b"\n"

    def _json_line(self, stamp: str, level: str, module: str, message: str) -> bytes:
        """Cut inside the message, so that the line stays an object."""
        room = LINE_LENGTH_MAX
        while True:
            shown = message[:room]
            if len(shown) < len(message):
                shown += CUT_MARK.decode()
            line = msgspec.json.encode(
                {
                    "time": stamp,
                    "level": level,
                    "shard": self._speaker,
                    "module": module[:MODULE_LENGTH_MAX],
                    # Halves of surrogate pairs, which no JSON encoder takes, are shown as escapes.
                    "message": shown.encode(errors="backslashreplace").decode(),
                }
            )
            line = visible_json(line.decode()).encode()
            if len(line) < LINE_LENGTH_MAX:
                return line + b"\n"
            room = room * 3 // 4

    def _time(self, created: float) -> str:
        """Most lines share their second with the one before; only the microseconds are new."""
        second = int(created)
        if second != self._second:
            self._second = second
            self._second_text = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second))
        return f"{self._second_text}.{int((created - second) * 1_000_000):06d}Z"


class LineHandler(logging.Handler):
    """Writes lines to standard error and to the log file. Never raises."""

    def __init__(
        self, formatter: LineFormatter, file: LogFile | None, stderr_fd: int | None
    ) -> None:
        super().__init__()
        self._lines = formatter
        self._file = file
        self._stderr_fd = stderr_fd
        self.lost_count = 0

    def emit(self, record: logging.LogRecord) -> None:
        """Writes the line of a record; one that cannot be formatted becomes an error line."""
        try:
            line = self._lines.line(record)
        except Exception as error:
            # A record whose arguments do not fit its text, or whose arguments cannot be shown.
            broken = logging.makeLogRecord(
                {
                    "name": record.name,
                    "levelno": logging.ERROR,
                    "msg": f"a log line of {record.pathname}:{record.lineno} cannot be shown"
                    f" ({type(error).__name__})",
                }
            )
            line = self._lines.line(broken)
        if self._stderr_fd is not None:
            # Standard error may be closed; the file is what counts.
            with contextlib.suppress(OSError):
                os.write(self._stderr_fd, line)
        if self._file is not None:
            self._write(self._file, line)

    def _write(self, file: LogFile, line: bytes) -> None:
        """A full disk does not stop the broker; once there is room the log says what it missed."""
        try:
            if self.lost_count:
                file.write(self._lost_line())
                self.lost_count = 0
            file.write(line)
        except OSError:
            self.lost_count += 1

    def _lost_line(self) -> bytes:
        return self._lines.line(
            logging.makeLogRecord(
                {
                    "name": __name__,
                    "levelno": logging.WARNING,
                    "msg": f"{self.lost_count} log lines could not be written",
                }
            )
        )

    def sweep(self) -> None:
        """Enforces the retention of the log files; for a timer of the supervisor."""
        if self._file is not None:
            try:
                self._file.sweep()
            except OSError:
                logging.getLogger(__name__).warning("cannot clean up log files", exc_info=True)

    def close(self) -> None:
        """Closes the log file; later lines go to standard error only."""
        super().close()
        if self._file is not None:
            self._file.close()
            self._file = None


def set_up_logging(
    config: Logging,
    data_directory: Path,
    speaker: str,
    environ: Mapping[str, str],
    *,
    stderr_fd: int | None = STDERR,
) -> LineHandler:
    """Makes the root logger of this process write our lines, and nothing else.

    `speaker` is "supervisor" or shard_speaker(n). A log directory that cannot be used is reported
    on standard error and does not stop the broker.
    """
    file = None
    failure = None
    if config.file_enabled:
        rotation = Rotation(
            config.max_file_size,
            config.max_total_size,
            seconds(config.retention),
            seconds(config.rotation_check_interval),
        )
        try:
            file = LogFile(data_directory / config.path, rotation)
        except OSError as error:
            failure = error
    handler = LineHandler(LineFormatter(speaker, json=config.json), file, stderr_fd)
    root = logging.getLogger()
    for old in root.handlers[:]:
        root.removeHandler(old)
        old.close()
    root.addHandler(handler)
    root.setLevel(chosen_level(config.level, environ))
    if failure is not None:
        logging.getLogger(__name__).warning("no log file: %s", failure)
    return handler


def shard_speaker(shard: int) -> str:
    """Returns the name of a shard in log lines."""
    return f"shard-{shard}"


def level_text(level: int) -> str:
    """Returns the level as Iggy's logs spell it."""
    if level >= logging.ERROR:
        return "ERROR"
    if level >= logging.WARNING:
        return "WARN"
    if level >= logging.INFO:
        return "INFO"
    return "DEBUG" if level >= logging.DEBUG else "TRACE"
