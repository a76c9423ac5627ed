"""The table of the rings: what other shards may ask of this one, and what carries it out."""

from collections.abc import Callable

from borzoi.shards.changes.requests import Barrier, Propose
from borzoi.shards.changes.service import MetadataService
from borzoi.shards.changes.writing import MetadataWriting
from borzoi.shards.groups.member_requests import OF_MEMBERS, TellMembers
from borzoi.shards.groups.requests import AT_OWNER_OF_CLAIMS, Assign, Report
from borzoi.shards.groups.service import Groups
from borzoi.shards.identity.clients import Clients, TellClients
from borzoi.shards.identity.logins import LoginNote, Logins
from borzoi.shards.identity.request_numbers import RequestNumbers, TakeOver
from borzoi.shards.metrics.figures import Figures, TellFigures
from borzoi.shards.observing.read_hits import Caches, TellReadHits
from borzoi.shards.observing.upkeep_report import TellUpkeep, Upkeep
from borzoi.shards.partitions.owned import Partitions
from borzoi.shards.ports.append import Appends
from borzoi.shards.ports.owners import Owners, PartitionOwners
from borzoi.shards.ports.requests import (
    AT_OWNER,
    Decides,
    FlushJournals,
    ResolvePoll,
    TellSegments,
)
from borzoi.shards.reading.readers import PartitionReaders, SegmentReplaced
from borzoi.shards.rings.requests import Append, AppendAt, Done, Request, Serve
from borzoi.shards.web_groups.member_requests import OF_LEASES
from borzoi.shards.web_groups.members import LeasedMembers
from borzoi.shards.web_tokens.revocations import Revocations, Revoke, Revoked


def ring_table(
    appends: Appends,
    owners: PartitionOwners,
    poll_owners: Owners[Decides],
    partitions: Partitions,
    metadata: MetadataService,
    writing: MetadataWriting | None,
    clients: Clients,
    logins: Logins,
    numbers: RequestNumbers,
    groups: Groups,
    caches: Caches,
    readers: PartitionReaders,
    upkeep: Upkeep,
    figures: Figures,
    revocations: Revocations,
    members: LeasedMembers,
) -> dict[type[Request], Serve]:
    """Every kind of request that this shard answers, now or later."""

    def tell_clients(_shard: int, _request: TellClients, lent: memoryview, done: Done) -> None:
        # Those of a user who was removed do not count any more.
        metadata.refresh()
        clients.serve(lent, done)

    table: dict[type[Request], Serve] = {
        Append: appends.serve,
        AppendAt: appends.serve_at,
        ResolvePoll: poll_owners.serve,
        TellSegments: owners.serve_segments,
        **dict.fromkeys(AT_OWNER, owners.serve),
        **dict.fromkeys(AT_OWNER_OF_CLAIMS, groups.owners.serve),
        Assign: groups.local.serve_assign,
        Report: groups.local.serve_report,
        Barrier: _at_once(metadata.refresh),
        FlushJournals: _at_once(partitions.flush_journals),
        SegmentReplaced: readers.serve_replaced,
        LoginNote: logins.serve,
        TakeOver: numbers.serve,
        TellClients: tell_clients,
        TellReadHits: caches.serve,
        TellUpkeep: upkeep.serve,
        TellFigures: figures.serve,
        Revoked: revocations.serve_revoked,
        **dict.fromkeys(OF_LEASES, members.serve),
    }
    if writing is not None:  # shard 0
        table[Propose] = writing.serve
        table[Revoke] = revocations.serve_revoke
        table |= dict.fromkeys(OF_MEMBERS, groups.serve)
        table[TellMembers] = groups.serve_members
    return table


def _at_once(work: Callable[[], object]) -> Serve:
    def serve(_shard: int, _request: Request, _lent: memoryview, done: Done) -> None:
        work()
        done(0)

    return serve
