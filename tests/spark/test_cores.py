"""How many tasks run at once, where that can be known."""

import os

import pytest

from borzoi.spark.cores import environment_of, known_cores, local_cores
from borzoi.spark.options import read_options

HERE = len(os.sched_getaffinity(0))
PLACE = {"server": "iggy://u:p@h:1", "stream": "s", "topic": "t"}


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
    assert known_cores(environment_of(master)) == cores


def test_nothing_is_known_without_a_sensible_number() -> None:
    assert known_cores({}) is None
    assert known_cores({"BORZOI_SPARK_CORES": "many"}) is None
    assert known_cores({"BORZOI_SPARK_CORES": "0"}) is None


def test_what_the_user_says_about_tasks_wins() -> None:
    environ = environment_of("local[3]")
    assert read_options(PLACE, streaming=False, environ=environ).tasks.count_max == 3
    assert read_options(PLACE, streaming=False, environ={}).tasks.count_max is None
    free = read_options({**PLACE, "maxPartitions": "none"}, streaming=False, environ=environ)
    assert free.tasks.count_max is None
    # More tasks than cores are what was asked for, not a contradiction.
    more = read_options({**PLACE, "minPartitions": "5"}, streaming=False, environ=environ)
    assert (more.tasks.count_min, more.tasks.count_max) == (5, 3)
