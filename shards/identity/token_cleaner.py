"""Clears expired tokens away, now and then, on shard 0.

An expired token is refused whether it is still there or not; this is about the list a user sees
and about memory. One log entry clears all of them, and none is written for nothing.
"""

import asyncio
import logging
from typing import Final

from borzoi.protocol.errors import BrokerError
from borzoi.shards.changes.service import MetadataService
from borzoi.shards.decisions.commands import DeleteExpiredTokens
from borzoi.shards.loop.clock import BrokerClock
from borzoi.shards.loop.periodic import PeriodicTask
from borzoi.shards.loop.tasks import Tasks
from borzoi.shards.metadata.state import ROOT_USER_ID, State

LOG: Final = logging.getLogger(__name__)


class TokenCleaner:
    """Looks at all tokens once per interval."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        metadata: MetadataService,
        clock: BrokerClock,
        tasks: Tasks,
        interval_s: float,
    ) -> None:
        self._metadata = metadata
        self._clock = clock
        self._looks = PeriodicTask(loop, interval_s, self._look, tasks)

    def start(self) -> None:
        """The first look is one interval from now."""
        self._looks.start()

    async def _look(self) -> None:
        if not has_expired_tokens(self._metadata.refresh(), self._clock.now_us()):
            return
        try:
            await self._metadata.change(DeleteExpiredTokens(), ROOT_USER_ID)
        except BrokerError as error:
            LOG.warning("expired tokens are still listed: %s", error)


def has_expired_tokens(state: State, now_us: int) -> bool:
    """Whether there is anything to clear away."""
    return any(
        token.expired(now_us) for user in state.users.values() for token in user.tokens.values()
    )
