"""What the supervisor makes of the death of a worker: a report, and suspicion of a request.

Called once for each death, while the memories of the dead one are still there. It knows nothing
of restarts: those go on whatever is found here.
"""

import logging
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from borzoi.shards.faults.crash_reports import CrashReports, Death, read_trace, signal_name
from borzoi.shards.faults.in_work import RequestInWork, asking_shard, read_asked, read_in_work
from borzoi.shards.faults.poison import FATAL, REFUSED_S, Suspects, digest_of
from borzoi.shards.nursery.spawning import WorkerProcess

LOG: Final = logging.getLogger(__name__)


class WorkerDeaths:
    """Looks at dead workers."""

    def __init__(
        self,
        directory: Path,
        workers: Sequence[WorkerProcess],
        suspects: Suspects,
        arena_size: int,
    ) -> None:
        self._reports = CrashReports(directory)
        self._workers = workers
        self._suspects = suspects
        self._arena_size = arena_size

    def look_at(self, worker: WorkerProcess, code: int, pid: int, *, was_ordered: bool) -> bool:
        """A worker has ended with this exit code; True if the workers must refuse more than before.

        `was_ordered`: the broker is about to stop, or the supervisor has killed it.
        """
        number = -code
        if number <= 0 or (was_ordered and number == signal.SIGKILL):
            return False
        request = self._in_work(worker)
        lived_s = time.monotonic() - worker.started_at
        trace = read_trace(worker.trace_fd)
        death = Death(worker.shard, worker.generation, pid, number, lived_s, request, trace)
        path = self._reports.write(death, time.time())
        if path is not None:
            LOG.error("shard %d died of %s, see %s", worker.shard, signal_name(number), path)
        if request is None or number not in FATAL:
            return False
        digest = digest_of(request.code, request.length, request.head)
        if self._suspects.note(digest, time.monotonic()) is None:
            return False
        LOG.error(
            "workers died more than once of a request of code %d, %d bytes: it is refused for %d s",
            request.code,
            request.length,
            REFUSED_S,
        )
        return True

    def _in_work(self, worker: WorkerProcess) -> RequestInWork | None:
        """What it was doing: for another shard, or else for a client of its own."""
        words = worker.control.in_work
        shard = asking_shard(words)
        if shard is None:
            return read_in_work(words, worker.arena_fd, self._arena_size)
        if shard >= len(self._workers):
            return None
        return read_asked(words, self._workers[shard].arena_fd, self._arena_size)
