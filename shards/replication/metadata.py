"""The lane `meta`: each entry of the metadata log is put there before it is appended here.

Opened by prepare.py before anything of the data directory is looked at, and by shard 0 when it
boots. Owned by the loop of shard 0 then. One command at a time, so one slot is on its way.

Always: the local metadata log is a prefix of the lane, but for the root user of a first boot, whose
entry is put before it is published. What is anything else is made again from the lane.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from borzoi.cluster.driver import Driver
from borzoi.cluster.lane import LaneDamaged, Opened, Outcome
from borzoi.cluster.lane_log import LaneLog, open_lane
from borzoi.cluster.meta_replay import MetaReplay, write_checkpoint
from borzoi.cluster.slots import META_LANE, Entry, EntryKind
from borzoi.cluster.stores import StoreRefused
from borzoi.protocol.errors import IoError
from borzoi.shards.loop.tasks import Tasks
from borzoi.shards.metadata.state import State
from borzoi.shards.metadata_log.follower import open_copy
from borzoi.shards.metadata_log.snapshot import dump, previous_path
from borzoi.storage.files import Files
from borzoi.storage.layout import DataLayout
from borzoi.storage.wal import EntryPlace, WalDamaged, decode_entry, log_start
from borzoi.storage.wal_writer import find_end, open_wal

LOG: Final = logging.getLogger(__name__)

CHECKPOINT_ENTRIES: Final = 512


class MetaLane:
    """The writing end of the lane `meta`."""

    def __init__(
        self,
        driver: Driver,
        opened: Opened,
        replay: MetaReplay,
        tasks: Tasks,
        cannot_go_on: Callable[[str], None],
    ) -> None:
        self._log = LaneLog(driver, opened, self._ended, cannot_go_on)
        self._tasks = tasks
        self._cannot_go_on = cannot_go_on
        self._waiting: asyncio.Future[Outcome] | None = None
        self._last_entry = replay.entries[-1] if replay.entries else replay.base
        self._last_index = replay.last_index
        self._slots = len(replay.entries)
        self._is_checkpointing = False

    async def put(self, entry: bytes, state: State) -> None:
        """Returns once the entry is in the lane. `state` is that before it.

        As long as the store is away this waits, and every other change with it. IoError: the entry
        is not in the lane, or that is not known, and this broker stops.
        """
        if self._slots >= CHECKPOINT_ENTRIES and not self._is_checkpointing:
            self._begin_checkpoint(state)
        if not self._log.has_room:
            raise IoError("the metadata of this cluster is written by another node")
        self._waiting = asyncio.get_running_loop().create_future()
        self._log.append([Entry(EntryKind.METADATA, body=entry)])
        outcome = await self._waiting
        if outcome is not Outcome.STORED:
            raise IoError(f"the entry is {outcome.value}: another node has taken the metadata over")
        self._slots += 1
        self._last_entry, self._last_index = entry, self._last_index + 1

    def failed(self, error: Exception) -> None:
        """An entry is in the lane, and cannot be appended here."""
        self._cannot_go_on(f"the metadata log cannot be written here: {error}")

    def _ended(self, _slot: int, outcome: Outcome) -> None:
        assert self._waiting is not None
        if not self._waiting.done():
            self._waiting.set_result(outcome)

    def _begin_checkpoint(self, state: State) -> None:
        name = self._log.next_checkpoint()
        if name is None:
            return
        self._is_checkpointing = True
        self._slots = 0
        place = EntryPlace(self._last_index, len(self._last_entry))
        body = write_checkpoint(dump(state, place, self._last_index), self._last_entry)

        async def store() -> None:
            try:
                await self._log.checkpoint(name, body, b"", frozenset())
            except StoreRefused as error:
                self._cannot_go_on(f"the lane of the metadata: {error}")
            finally:
                self._is_checkpointing = False

        self._tasks.start(store())


async def open_meta(
    driver: Driver, window: int, layout: DataLayout, files: Files
) -> tuple[Opened, MetaReplay]:
    """Take the lane `meta` over and bring the local metadata log level with it.

    LaneDamaged, StoreRefused, ManifestDamaged or OSError: it cannot be used.
    """
    replay = MetaReplay()
    opened = await open_lane(driver, META_LANE, window, replay)
    await asyncio.to_thread(bring_level, layout, files, replay)
    return opened, replay


def bring_level(layout: DataLayout, files: Files, replay: MetaReplay) -> None:
    """Make the local log what the lane has. Durable when it returns.

    LaneDamaged if that would throw everything away: a first boot leaves one entry here at most.
    """
    found = _last_entry(layout, files)
    if replay.last_index == 0 and found is not None and found[0] > 1:
        raise LaneDamaged(
            f"the store has no metadata any more, and {layout.root} has {found[0]} entries: keep a"
            " copy of it, and bring the deleted objects back"
        )
    if found is None or not replay.first - 1 <= found[0] <= replay.last_index:
        _start_over(layout, files, replay)
    elif found[1] and found[1] != _entry_of(replay, found[0]):
        LOG.warning("%s is of another history, it is made again", layout.state_log)
        _start_over(layout, files, replay)
    start = log_start(files, layout.state_log)
    wal = open_wal(layout.state_log, files, after=start)
    try:
        for entry in replay.entries[wal.last_index + 1 - replay.first :]:
            wal.append(entry)
        wal.sync()
    finally:
        wal.close()
    if wal.last_index != replay.last_index:
        raise LaneDamaged(f"the metadata ends with {wal.last_index}, not {replay.last_index}")


def _last_entry(layout: DataLayout, files: Files) -> tuple[int, bytes] | None:
    """Index and bytes of the last entry of the local log; None if it cannot be used."""
    try:
        open_copy(layout.state_log, layout.state_snapshot, files).close()
        data = files.read_whole(layout.state_log) or b""
        if not data:
            return 0, b""
        end, _ = find_end(files, layout.state_log, log_start(files, layout.state_log))
    except WalDamaged as error:
        LOG.warning("the metadata is made again from the store: %s", error)
        return None
    last, position = b"", 0
    view = memoryview(data)
    while position < end.position:
        _, behind = decode_entry(view, position, end.position)
        last, position = bytes(view[position:behind]), behind
    return end.index, last


def _entry_of(replay: MetaReplay, index: int) -> bytes:
    return replay.entries[index - replay.first] if index >= replay.first else replay.base


def _start_over(layout: DataLayout, files: Files, replay: MetaReplay) -> None:
    for path in (layout.state_log, layout.state_snapshot, previous_path(layout.state_snapshot)):
        with suppress(FileNotFoundError):
            files.unlink(path)
    if replay.snapshot:
        # The log first: a snapshot without it would stop the next start.
        files.write_atomically(layout.state_log, replay.base)
        files.write_atomically(layout.state_snapshot, replay.snapshot)
