"""Figures of processes that may be dying while they are asked for."""

import subprocess
import sys

import psutil

from borzoi.shards.statistics import used_by


def test_a_process_that_is_gone_is_left_out() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    process = psutil.Process(child.pid)
    usage = used_by(process)
    assert usage is not None
    assert usage.resident_bytes > 0
    assert usage.threads_count == 1
    child.kill()
    child.communicate()
    assert used_by(process) is None
