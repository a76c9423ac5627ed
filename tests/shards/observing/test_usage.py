"""What processes take: rates between two looks, and processes that come and go."""

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from borzoi.shards.observing.usage import (
    WINDOW_MAX_S,
    WINDOW_MIN_S,
    Look,
    ProcessUsage,
    UsageMeter,
    broker_pids,
    cpu_percent,
    machine_cpu_percent,
    process_usage,
)


def look(at: float, cpu_s: dict[int, float], busy: float = 0.0, total: float = 0.0) -> Look:
    processes = {pid: ProcessUsage(used, 0, 0, 0, 1) for pid, used in cpu_s.items()}
    return Look(at, processes, busy, total)


def test_two_busy_processes_are_two_cores() -> None:
    assert cpu_percent(look(10, {1: 5, 2: 7}), look(12, {1: 7, 2: 9})) == 200


def test_a_new_process_has_used_everything_since() -> None:
    assert cpu_percent(look(10, {1: 5}), look(12, {1: 5, 2: 1})) == 50


def test_a_dead_process_is_left_out() -> None:
    assert cpu_percent(look(10, {1: 5, 2: 100}), look(12, {1: 6})) == 50


def test_a_reused_pid_does_not_count_backwards() -> None:
    assert cpu_percent(look(10, {1: 100}), look(12, {1: 0})) == 0


def test_the_machine() -> None:
    assert machine_cpu_percent(look(0, {}, 10, 100), look(1, {}, 11, 104)) == 25
    # The kernel's counters are not read at one instant, and stand still on an idle guest.
    assert machine_cpu_percent(look(0, {}, 10, 100), look(1, {}, 9, 104)) == 0
    assert machine_cpu_percent(look(0, {}, 10, 100), look(1, {}, 10, 100)) == 0


class Clock:
    def __init__(self) -> None:
        self.now = 0.0
        self.slept: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


def test_when_it_waits_and_when_it_remembers(tmp_path: Path) -> None:
    clock = Clock()
    meter = UsageMeter(os.getpid(), tmp_path, lambda: clock.now, clock.sleep)
    first = meter.measure()
    assert clock.slept == [WINDOW_MIN_S]
    # Young: the same figures.
    clock.now += WINDOW_MIN_S / 2
    assert meter.measure() is first
    # Neither young nor old: the last look is the first of two.
    clock.now += WINDOW_MAX_S / 2
    assert meter.measure() is not first
    assert clock.slept == [WINDOW_MIN_S]
    # Old: what happened since then is history.
    clock.now += WINDOW_MAX_S + 1
    meter.measure()
    assert clock.slept == [WINDOW_MIN_S] * 2


def test_a_process_that_is_gone_is_left_out() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    used = process_usage(child.pid)
    assert used is not None
    assert used.memory_bytes > 0
    assert used.threads_count == 1
    assert child.pid in broker_pids(os.getpid())
    child.kill()
    child.communicate()
    assert process_usage(child.pid) is None
    assert child.pid not in broker_pids(os.getpid())


def test_without_the_kernels_list_of_children(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(_path: Path) -> str:
        raise FileNotFoundError

    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        monkeypatch.setattr(Path, "read_text", absent)
        assert child.pid in broker_pids(os.getpid())
    finally:
        child.kill()
        child.communicate()


def test_a_kernel_that_hides_shares(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(process: psutil.Process) -> int:
        raise psutil.AccessDenied(process.pid)

    monkeypatch.setattr(psutil.Process, "memory_full_info", refuse)
    used = process_usage(os.getpid())
    assert used is not None
    assert used.memory_bytes == pytest.approx(psutil.Process().memory_info().rss, rel=0.2)
