"""The supervisor's part of a stop: give the order, wait as long as the workers get on, say why not.

Workers write everything and then bring it to the disk (closing.py). They say in their control
memory what is left, and their heartbeat goes on. A worker is killed only

    when its loop has not turned for `limits.heartbeat_timeout`, as at any other time
    when the stop takes longer than `system.stop_timeout`
    when it is still starting, and so has acknowledged nothing, after STARTING_TIMEOUT_S
    when SIGQUIT says so

and then, or when it ends by itself with anything but its exit code for a complete stop, the exit
code of the broker is another one. Scripts and service managers must not take that for a good end.
"""

import asyncio
import logging
import time
from collections.abc import Sequence
from typing import Final

from borzoi.router.fds import ChannelFull
from borzoi.shards.nursery.spawning import WorkerProcess
from borzoi.shards.orders.spec import CANNOT_BOOT, INCOMPLETE, Order

LOG: Final = logging.getLogger(__name__)

STOPPED: Final = 0
"""Everything acknowledged is on the disk."""

NOT_ON_DISK: Final = 4
"""A shard could not write or sync everything acknowledged; its log says what of which partition."""

KILLED: Final = 5
"""A shard was killed, or died, before it had written everything: what it had acknowledged from
memory alone (durability `buffered`) may be lost."""

STARTING_TIMEOUT_S: Final = 4.5
REPORT_INTERVAL_S: Final = 1.0
LOOK_INTERVAL_S: Final = 0.01
LATE_MAX_S: Final = 1.0


class OrderlyStop:
    """One stop of all workers."""

    def __init__(
        self,
        workers: Sequence[WorkerProcess],
        stop_timeout_s: float,
        stalled_after_s: float,
        *,
        starting_timeout_s: float = STARTING_TIMEOUT_S,
        report_interval_s: float = REPORT_INTERVAL_S,
    ) -> None:
        self._workers = workers
        self._stop_timeout_s = stop_timeout_s
        self._stalled_after_s = stalled_after_s
        self._starting_timeout_s = starting_timeout_s
        self._report_interval_s = report_interval_s
        self._began = 0.0
        # No silence is counted from before this: the order, or a pause of our own.
        self._watched_since = 0.0
        self._kill_ordered = False
        self._killed: set[int] = set()
        self._exit_code = STOPPED

    async def run(self) -> int:
        """Until no worker lives; the exit code."""
        self._began = self._watched_since = time.monotonic()
        stopping = self._living()
        for worker in stopping:
            try:
                worker.order(Order("stop"))
            except ChannelFull:
                LOG.error("shard %d does not take the order to stop", worker.shard)
        report_at = self._began + self._report_interval_s
        last_look = self._began
        while self._living():
            await asyncio.sleep(LOOK_INTERVAL_S)
            now = time.monotonic()
            if now - last_look > LATE_MAX_S:
                # We did not move either: the whole broker was paused. Give the workers their turn.
                self._watched_since = now
            last_look = now
            self._kill_some(now)
            if now >= report_at:
                self.report()
                report_at = now + self._report_interval_s
        for worker in stopping:
            self._judge(worker)
        return self._exit_code

    def report(self) -> None:
        """Say what is left, once the stop has begun."""
        if not self._began:
            return
        LOG.info(
            "stopping for %.1f s: %s",
            time.monotonic() - self._began,
            "; ".join(f"shard {worker.shard} {self._state(worker)}" for worker in self._workers),
        )

    def _state(self, worker: WorkerProcess) -> str:
        if worker.shard not in self._killed or worker.exit_code == 0:
            return _left(worker)
        return "was killed" if worker.process is None else "is being killed"

    def kill(self) -> None:
        """Wait no longer."""
        self._kill_ordered = True

    def _kill_some(self, now: float) -> None:
        for worker in self._living():
            reason = self._reason_to_kill(worker, now)
            if reason is None or worker.shard in self._killed:
                continue
            # No error yet: it may end by itself before the signal arrives.
            left = _left(worker)
            LOG.warning("shard %d %s and is being killed; it %s", worker.shard, reason, left)
            self._killed.add(worker.shard)
            assert worker.process is not None
            worker.process.kill()

    def _reason_to_kill(self, worker: WorkerProcess, now: float) -> str | None:
        if self._kill_ordered:
            return "is not waited for any longer (SIGQUIT)"
        beat_s = worker.control.last_beat() / 1e9
        if beat_s == 0:
            if now - self._began > self._starting_timeout_s:
                return f"was still starting {self._starting_timeout_s:g} s after the order to stop"
        elif now - max(beat_s, self._watched_since) > self._stalled_after_s:
            return f"has not moved for {now - beat_s:.1f} s"
        if now - self._began > self._stop_timeout_s:
            return f"did not stop within {self._stop_timeout_s:g} s (system.stop_timeout)"
        return None

    def _judge(self, worker: WorkerProcess) -> None:
        if worker.exit_code == INCOMPLETE:
            self._exit_code = max(self._exit_code, NOT_ON_DISK)
        elif worker.exit_code not in (0, CANNOT_BOOT) and worker.control.last_beat():
            how = "was killed and ended" if worker.shard in self._killed else "ended"
            LOG.error("shard %d %s with code %s", worker.shard, how, worker.exit_code)
            self._exit_code = max(self._exit_code, KILLED)

    def _living(self) -> list[WorkerProcess]:
        return [worker for worker in self._workers if worker.process is not None]


def _left(worker: WorkerProcess) -> str:
    if worker.process is None:
        return "has stopped"
    left = worker.control.left_to_stop()
    if left is None:
        return "has not begun to write"
    return f"has {left.to_write} partitions to write, {left.to_sync} to sync"
