"""Changes of the metadata take turns by user, and each user has a pace.

Every shard has one of these before its way to the writer. It lets one change at a time through,
so that neither the writer nor the ring to it has more than one of each shard in hand: who waits,
waits here, where it keeps no others waiting. The writer takes what the shards bring in the order
in which it comes.

A user that makes changes faster than its pace waits and is not refused. The broker's own changes
have a turn like a user's, at no pace.
"""

from typing import Any, Final

from borzoi.shards.changes.authors import Author
from borzoi.shards.changes.service import Change, Proposer
from borzoi.shards.decisions.attaching import OF_THE_BROKER
from borzoi.shards.decisions.commands import DeleteExpiredTokens
from borzoi.shards.loop.turns import FairTurns
from borzoi.shares import user_taker

THE_BROKER: Final = "the broker"


class FairChanges:
    """Lets the changes of one shard through, one at a time. Implements Proposer."""

    def __init__(self, proposer: Proposer, turns: FairTurns) -> None:
        self._proposer = proposer
        self._turns = turns

    async def propose(self, command: Any, author: Author) -> Change:
        """Have a command carried out when it is its author's turn."""
        is_ours = isinstance(command, (DeleteExpiredTokens, *OF_THE_BROKER))
        taker = THE_BROKER if is_ours else user_taker(author.user_id)
        async with self._turns.turn(taker, is_paced=not is_ours):
            return await self._proposer.propose(command, author)
