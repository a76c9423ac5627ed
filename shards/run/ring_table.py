"""The table of the rings: which part of this shard answers which request of another shard.

Appends come first and by themselves: they are the only requests with a rate worth a thought.
"""

from collections.abc import Callable
from typing import Final

from borzoi.shards.changes.service import MetadataService
from borzoi.shards.changes.writing import MetadataWriting
from borzoi.shards.groups.service import Groups
from borzoi.shards.identity.clients import Clients
from borzoi.shards.identity.logins import Logins
from borzoi.shards.metrics.figures import Figures
from borzoi.shards.observing.read_hits import Caches
from borzoi.shards.observing.upkeep_report import Upkeep
from borzoi.shards.ports.owners import Owners
from borzoi.shards.reading.readers import Readers
from borzoi.shards.rings.requests import GROUP_KINDS, Done, Request, RequestKind

APPEND: Final = int(RequestKind.APPEND)


class PeerRequests:
    """Answers the requests of other shards. Called by the worker's loop."""

    def __init__(
        self,
        owners: Owners,
        metadata: MetadataService,
        writing: MetadataWriting | None,
        clients: Clients,
        logins: Logins,
        groups: Groups,
        caches: Caches,
        readers: Readers,
        upkeep: Upkeep,
        figures: Figures,
    ) -> None:
        self._owners = owners
        self._metadata = metadata
        self._writing = writing
        self._clients = clients
        self._logins = logins
        self._groups = groups
        self._readers = readers
        # Figures of this shard: each of these writes its answer into the memory that was lent.
        self._reports: dict[int, Callable[[memoryview, Done], None]] = {
            RequestKind.CACHE_METRICS: caches.serve,
            RequestKind.UPKEEP: upkeep.serve,
            RequestKind.METRICS: figures.serve,
        }

    def serve(self, shard: int, request: Request, lent: memoryview, done: Done) -> None:
        """Answers a request of `shard`, now or later."""
        if request.kind == APPEND:
            self._owners.serve_append(request, lent, done)
            return
        match request.kind:
            case RequestKind.PROPOSE:
                assert self._writing is not None, "only shard 0 is asked to write metadata"
                self._writing.serve(request, lent, done)
            case RequestKind.BARRIER:
                self._metadata.refresh()
                done(0, 0, 0, 0)
            case RequestKind.CLIENTS:
                # Those of a user who was removed do not count any more.
                self._metadata.refresh()
                self._clients.serve(lent, done)
            case RequestKind.LOGIN_NOTE:
                self._logins.serve(request)
                done(0, 0, 0, 0)
            case kind if kind in GROUP_KINDS:
                self._groups.serve(shard, request, lent, done)
            case RequestKind.SEGMENT_REPLACED:
                self._readers.replaced(request.namespace, request.birth, request.first)
                done(0, 0, 0, 0)
            case kind if kind in self._reports:
                self._reports[kind](lent, done)
            case _:
                self._owners.serve(request, lent, done)
