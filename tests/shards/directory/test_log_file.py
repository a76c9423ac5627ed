"""The shared log file: rotation by size, total size and age, by one process and by several."""

import fcntl
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from borzoi.shards.directory.log_file import LOG_NAME, LogFile, Rotation, archives_of, log_files

DAY_S = 86400.0


class Clock:
    def __init__(self) -> None:
        # The kernel stamps the files with real time, so this clock starts there too.
        self.now = time.time()

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def opened(clock: Clock) -> Iterator[list[LogFile]]:
    files: list[LogFile] = []
    yield files
    for file in files:
        file.close()


def rotation(file_size_max: int = 100, total_size_max: int = 0) -> Rotation:
    return Rotation(file_size_max, total_size_max, 7 * DAY_S, 3600.0)


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def test_without_a_size_there_is_one_file(tmp_path: Path) -> None:
    file = LogFile(tmp_path / "deep/logs", rotation(0))
    for _ in range(100):
        file.write(b"x" * 99 + b"\n")
    file.close()
    assert names(tmp_path / "deep/logs") == [LOG_NAME]
    assert file.path.stat().st_size == 10_000


def test_a_line_that_fits_exactly_stays(tmp_path: Path) -> None:
    file = LogFile(tmp_path, rotation(100))
    file.write(b"x" * 49 + b"\n")
    file.write(b"y" * 49 + b"\n")
    assert names(tmp_path) == [LOG_NAME]
    file.write(b"\n")
    file.close()
    assert names(tmp_path) == [LOG_NAME, f"{LOG_NAME}.1"]
    assert (tmp_path / f"{LOG_NAME}.1").stat().st_size == 100
    assert file.path.read_bytes() == b"\n"


def test_a_line_larger_than_a_file_is_written_whole(tmp_path: Path) -> None:
    file = LogFile(tmp_path, rotation(100))
    for _ in range(2):
        file.write(b"x" * 200 + b"\n")
    file.close()
    assert [path.stat().st_size for path in log_files(tmp_path)] == [201, 201]


def test_archives_count_up_oldest_first(tmp_path: Path) -> None:
    file = LogFile(tmp_path, rotation(2))
    for number in range(12):
        file.write(b"%x\n" % number)
    file.close()
    assert [path.read_bytes() for path in log_files(tmp_path)] == [
        b"%x\n" % number for number in range(12)
    ]
    assert [number for number, _ in archives_of(tmp_path)] == list(range(1, 12))


def test_the_total_counts_a_full_active_file(tmp_path: Path) -> None:
    """Files of 100 within 400: three archives and the active one."""
    file = LogFile(tmp_path, rotation(100, 400))
    for _ in range(200):
        file.write(b"x" * 9 + b"\n")
        sizes = [path.stat().st_size for path in log_files(tmp_path)]
        assert len(sizes) <= 4
        assert sum(sizes) <= 400
        assert max(sizes) <= 100
    file.close()
    assert len(log_files(tmp_path)) == 4


def test_old_archives_go(tmp_path: Path, clock: Clock) -> None:
    file = LogFile(tmp_path, rotation(2), clock)
    for _ in range(3):
        file.write(b"x\n")
    archive = tmp_path / f"{LOG_NAME}.1"
    os.utime(archive, (clock.now - 7 * DAY_S, clock.now - 7 * DAY_S))
    file.sweep()
    assert archive.exists()
    os.utime(archive, (clock.now - 7 * DAY_S - 1, clock.now - 7 * DAY_S - 1))
    file.sweep()
    file.close()
    assert names(tmp_path) == [LOG_NAME, f"{LOG_NAME}.2"]


def test_lines_look_after_age_once_per_interval(tmp_path: Path, clock: Clock) -> None:
    file = LogFile(tmp_path, rotation(1000), clock)
    archive = tmp_path / f"{LOG_NAME}.1"
    archive.write_bytes(b"old\n")
    os.utime(archive, (0, 0))
    clock.now += 3599
    file.write(b"x\n")
    assert archive.exists()
    clock.now += 1
    file.write(b"x\n")
    file.close()
    assert not archive.exists()


def test_an_active_file_that_is_too_old_becomes_an_archive(tmp_path: Path, clock: Clock) -> None:
    (tmp_path / LOG_NAME).write_bytes(b"2020-01-01T00:00:00.000000Z  INFO shard-0 m: old\n")
    file = LogFile(tmp_path, rotation(1000), clock)
    file.write(b"new\n")
    file.close()
    assert names(tmp_path) == [LOG_NAME, f"{LOG_NAME}.1"]
    assert file.path.read_bytes() == b"new\n"


def test_a_first_line_without_a_time_is_not_old(tmp_path: Path, clock: Clock) -> None:
    (tmp_path / LOG_NAME).write_bytes(b"2020-99-99T00:00:00 nonsense\n")
    LogFile(tmp_path, rotation(1000), clock).close()
    assert names(tmp_path) == [LOG_NAME]


def test_everybody_follows_a_rotation(tmp_path: Path, opened: list[LogFile]) -> None:
    one, two = LogFile(tmp_path, rotation(10)), LogFile(tmp_path, rotation(10))
    opened += (one, two)
    one.write(b"12345678\n")
    two.write(b"abcdefgh\n")
    one.write(b"\n")
    assert (tmp_path / LOG_NAME).read_bytes() == b"abcdefgh\n\n"


def test_a_removed_file_comes_back(tmp_path: Path, opened: list[LogFile]) -> None:
    file = LogFile(tmp_path, rotation(100))
    opened.append(file)
    file.write(b"gone\n")
    file.path.unlink()
    file.write(b"here\n")
    assert file.path.read_bytes() == b"here\n"


def test_a_lock_that_is_never_given_back_delays_but_loses_nothing(
    tmp_path: Path, opened: list[LogFile]
) -> None:
    file = LogFile(tmp_path, rotation(4), lock_wait_s=0.01)
    opened.append(file)
    stopped = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(stopped, fcntl.LOCK_EX)
    try:
        file.write(b"one\n")
        file.write(b"two\n")
        file.sweep()
    finally:
        os.close(stopped)
    assert file.path.read_bytes() == b"one\ntwo\n"
    assert names(tmp_path) == [LOG_NAME]
    file.write(b"three\n")
    assert file.path.read_bytes() == b"three\n"


def test_foreign_files_are_left_alone(tmp_path: Path) -> None:
    for name in ("iggy-server.log.gz", "iggy-server.log.1x", "other.log.1"):
        (tmp_path / name).write_bytes(b"x" * 1000)
    file = LogFile(tmp_path, rotation(10, 20))
    for _ in range(10):
        file.write(b"x" * 9 + b"\n")
    file.close()
    assert {"iggy-server.log.gz", "iggy-server.log.1x", "other.log.1"} <= set(names(tmp_path))


WRITER = """
import sys
from pathlib import Path
from borzoi.shards.directory.log_file import LogFile, Rotation
file = LogFile(Path(sys.argv[1]), Rotation(10_000, int(sys.argv[3]), 1e6, 1e6), lock_wait_s=60)
print("ready", flush=True)
sys.stdin.readline()
for number in range(1000):
    file.write(f"{sys.argv[2]} {number:04d} {'x' * (number % 60)}\\n".encode())
file.close()
"""


def write_from_three_processes(directory: Path, total_size_max: int) -> None:
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, directory, name, str(total_size_max)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        for name in "abc"
    ]
    # Let go together: processes that run one after the other would prove nothing.
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write(b"\n")
        process.stdin.flush()
    for process in processes:
        process.communicate(timeout=60)
        assert process.returncode == 0


@pytest.mark.slow
def test_three_processes_lose_and_mix_nothing(tmp_path: Path) -> None:
    write_from_three_processes(tmp_path, 0)
    files = log_files(tmp_path)
    assert len(files) > 5
    assert max(path.stat().st_size for path in files) <= 10_000
    lines = [line for path in files for line in path.read_text().splitlines()]
    expected = {f"{name} {n:04d} {'x' * (n % 60)}" for name in "abc" for n in range(1000)}
    assert len(lines) == 3000
    assert set(lines) == expected
    # Archives are in order: what one process wrote later never lies in an older file.
    for name in "abc":
        own = [line[:6] for line in lines if line.startswith(name)]
        assert own == sorted(own)


@pytest.mark.slow
def test_three_processes_keep_the_total(tmp_path: Path) -> None:
    write_from_three_processes(tmp_path, 40_000)
    sizes = [path.stat().st_size for path in log_files(tmp_path)]
    assert len(sizes) == 4
    assert sum(sizes) <= 40_000
    assert max(sizes) <= 10_000
