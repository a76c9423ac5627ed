"""How many tasks run at once, where that can be known."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from borzoi.spark.cores import CORES_FILE, inherited, known_cores, local_cores, tell_master
from borzoi.spark.option_table import read_options

HERE = len(os.sched_getaffinity(0))
PLACE = {"server": "iggy://u:p@h:1", "stream": "s", "topic": "t"}


@pytest.fixture(autouse=True)
def kept() -> Iterator[None]:
    """Other tests of this process may have a session, which has its own number."""
    file = Path(inherited()[CORES_FILE])
    before = file.read_text()
    yield
    file.write_text(before)


@pytest.mark.parametrize(
    ("master", "cores"),
    [
        ("local", 1),
        ("local[2]", 2),
        ("local[*]", HERE),
        ("local[4, 3]", 4),
        ("local[*,2]", HERE),
        ("local-cluster[2,1,1024]", None),
        ("spark://host:7077", None),
        ("yarn", None),
        ("", None),
    ],
)
def test_only_a_master_on_this_machine_tells(master: str, cores: int | None) -> None:
    assert local_cores(master) == cores
    environ = inherited()
    tell_master("local[99]")
    tell_master(master)
    assert known_cores(environ) == cores


@pytest.mark.parametrize("content", [b"", b"many", b"0", b"-1", b"\xff"])
def test_nothing_is_known_without_a_sensible_number(tmp_path: Path, content: bytes) -> None:
    assert known_cores({}) is None
    environ = {CORES_FILE: str(tmp_path / "cores")}
    assert known_cores(environ) is None
    (tmp_path / "cores").write_bytes(content)
    assert known_cores(environ) is None


def test_of_a_process_that_has_ended_nothing_is_known() -> None:
    script = "from borzoi.spark.cores import *; tell_master('local[7]'); e = inherited();"
    script += "print(e[CORES_FILE], known_cores(e))"
    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    name, cores = shown.stdout.split()
    assert cores == "7"
    assert known_cores({CORES_FILE: name}) is None


def test_what_the_user_says_about_tasks_wins() -> None:
    tell_master("local[3]")
    environ = inherited()
    assert read_options(PLACE, streaming=False, environ=environ).tasks.count_max == 3
    assert read_options(PLACE, streaming=False, environ={}).tasks.count_max is None
    free = read_options({**PLACE, "maxPartitions": "none"}, streaming=False, environ=environ)
    assert free.tasks.count_max is None
    # More tasks than cores are what was asked for, not a contradiction.
    more = read_options({**PLACE, "minPartitions": "5"}, streaming=False, environ=environ)
    assert (more.tasks.count_min, more.tasks.count_max) == (5, 3)
