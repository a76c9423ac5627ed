"""Requests to the shard that holds a leased member, from the one that a request of it has reached.

A member stays where it joined; its requests come to any shard. Each of them renews the lease. A
shard that died has lost its members: its successor says that there is none.
"""

from typing import Final

from borzoi.shards.rings.requests import DeathRule, Request

ANY_PARTITION: Final = 0
"""In `wanted`: the partition whose turn it is. A partition is its number plus one."""


class OfLease(Request):
    """A request about one member of one group, for the user that it acts for."""

    client_id: int
    user_id: int
    birth: int
    """Of the group: another one of the same id is another group."""


class LeaseTurn(OfLease):
    """Which partition to poll. Results: partition plus one (0: none), epoch, partitions held."""

    KIND = 72
    RULE = DeathRule.REREAD

    wanted: int


class LeaseRight(OfLease):
    """The right to commit in a partition. Results: partition, epoch."""

    KIND = 73
    RULE = DeathRule.REREAD

    wanted: int


class LeaseRenew(OfLease):
    """Nothing but the lease."""

    KIND = 74
    RULE = DeathRule.REREAD


class LeaseEnd(OfLease):
    """The member leaves. Answered when all shards know."""

    KIND = 75


OF_LEASES: Final[tuple[type[OfLease], ...]] = (LeaseTurn, LeaseRight, LeaseRenew, LeaseEnd)
