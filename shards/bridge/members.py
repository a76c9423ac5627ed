"""When members of consumer groups were heard of; silent ones leave.

Shard 0 keeps the times and removes members. Any shard may get a heartbeat, and tells shard 0 by two
digests. A member that is not known yet, after a start or a join, has the whole time from then on.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

import xxhash

from borzoi.protocol.errors import BrokerError
from borzoi.shards.changes.service import MetadataService
from borzoi.shards.changes.writing import METADATA_SHARD
from borzoi.shards.decisions.attaching import LeaveBridgeGroup
from borzoi.shards.loop.periodic import Periodic
from borzoi.shards.metadata.state import ROOT_USER_ID
from borzoi.shards.rings.requests import DeathRule, Done, Request, ignore

LOG: Final = logging.getLogger(__name__)

LOOK_INTERVAL_S: Final = 1.0


class MemberHeard(Request):
    """To shard 0: a member of a group lives; digests of both names."""

    KIND = 76
    RULE = DeathRule.COMPLETE

    group: int
    member: int


class MemberWatch:
    """Heartbeats of one shard; on shard 0, those of all."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        shard: int,
        metadata: MetadataService,
        ask: Callable[[int, Request, Done], None],
        timeout_s: float,
    ) -> None:
        self._loop = loop
        self._shard = shard
        self._metadata = metadata
        self._ask = ask
        self._timeout_s = timeout_s
        self._heard: dict[tuple[int, int], float] = {}
        self._removing: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        """Shard 0: remove silent members from now on."""
        if self._shard == METADATA_SHARD:
            Periodic(self._loop, LOOK_INTERVAL_S, self._look).start()

    def heard_of(self, group: str, member: str) -> None:
        """A member lives."""
        digests = (_digest(group), _digest(member))
        if self._shard == METADATA_SHARD:
            self._heard[digests] = self._loop.time()
        else:
            self._ask(METADATA_SHARD, MemberHeard(*digests), ignore)

    def serve(self, _shard: int, request: MemberHeard, _lent: memoryview, done: Done) -> None:
        """A peer has heard of a member."""
        self._heard[request.group, request.member] = self._loop.time()
        done(0)

    def _look(self) -> None:
        now = self._loop.time()
        heard: dict[tuple[int, int], float] = {}
        for name, group in self._metadata.refresh().seen_bridge.groups.items():
            for member in group.members:
                digests = (_digest(name), _digest(member))
                last = heard[digests] = self._heard.get(digests, now)
                if now - last > self._timeout_s:
                    heard[digests] = now  # until it is removed, or tried again
                    self._remove(name, member)
        self._heard = heard

    def _remove(self, group: str, member: str) -> None:
        task = self._loop.create_task(self._removed(group, member))
        self._removing.add(task)
        task.add_done_callback(self._removing.discard)

    async def _removed(self, group: str, member: str) -> None:
        LOG.warning("member %r of group %r was silent for too long and leaves", member, group)
        try:
            await self._metadata.change(LeaveBridgeGroup(group, member, True), ROOT_USER_ID)
        except BrokerError as error:
            LOG.error("member %r cannot leave group %r: %s", member, group, error)


def _digest(text: str) -> int:
    return xxhash.xxh64_intdigest(text.encode())
