"""Changes take turns by user; the broker's own are held up by no pace."""

import asyncio
from typing import Any

from borzoi.protocol.commands.streams import CreateStream
from borzoi.shards.changes.authors import Author
from borzoi.shards.changes.fair_changes import FairChanges
from borzoi.shards.changes.service import Change
from borzoi.shards.decisions.commands import DeleteExpiredTokens
from borzoi.shards.loop.pace import Pace
from borzoi.shards.loop.turns import FairTurns
from borzoi.shares import Shares


class Writer:
    """Carries changes out one at a time."""

    def __init__(self) -> None:
        self.authors: list[int] = []
        self.running = 0

    async def propose(self, _command: Any, author: Author) -> Change:
        self.running += 1
        assert self.running == 1
        await asyncio.sleep(0)
        self.authors.append(author.user_id)
        self.running -= 1
        return Change(len(self.authors), 0)


def test_users_take_turns() -> None:
    async def main() -> None:
        writer = Writer()
        changes = FairChanges(writer, FairTurns(Shares("places", 100)))
        await asyncio.gather(
            *(changes.propose(CreateStream("s"), Author(user, 0)) for user in (1, 1, 1, 1, 2, 3, 2))
        )
        assert writer.authors == [1, 1, 2, 3, 1, 2, 1]

    asyncio.run(main())


def test_the_broker_itself_has_no_pace() -> None:
    async def main() -> None:
        writer = Writer()
        turns = FairTurns(Shares("places", 100), Pace(0.001, 1))
        changes = FairChanges(writer, turns)
        for _ in range(10):
            await changes.propose(DeleteExpiredTokens(), Author(0, 0))
        await changes.propose(CreateStream("s"), Author(0, 0))
        waiting = asyncio.ensure_future(changes.propose(CreateStream("s"), Author(0, 0)))
        await asyncio.sleep(0)
        await changes.propose(DeleteExpiredTokens(), Author(0, 0))
        assert not waiting.done()
        waiting.cancel()
        assert writer.authors == [0] * 12

    asyncio.run(main())
