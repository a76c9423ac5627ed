"""Requests about changes of the metadata."""

from borzoi.shards.rings.requests import DeathRule, Request


class Propose(Request):
    """To shard 0: carry out the lent command for a user. Results: entry, id that was given out."""

    KIND = 7
    RULE = DeathRule.FAIL
    LENDS = True

    code: int
    user_id: int
    user_created_at: int
    position: int
    length: int


class Barrier(Request):
    """From shard 0: apply the metadata log up to an entry, move what it removed out of the way."""

    KIND = 8
    RULE = DeathRule.COMPLETE

    index: int
