"""The server itself: is it there, how is it, what does it look like inside."""

from collections.abc import Iterable

from borzoi.client.arguments import InvalidArgument
from borzoi.client.calls.calling import Calling
from borzoi.protocol import commands
from borzoi.protocol.commands import SnapshotCompression, SnapshotType
from borzoi.protocol.responses import ClusterMetadata, Stats


class SystemCalls(Calling):
    """The calls of a client that are about the server itself."""

    async def ping(self) -> None:
        """Returns when the server answers; needs no login."""
        await self._ask(commands.Ping())

    async def get_stats(self) -> Stats:
        """Returns the figures of the server and its process."""
        stats: Stats = await self._ask(commands.GetStats())
        return stats

    async def get_cluster_metadata(self) -> ClusterMetadata:
        """Returns the nodes of the cluster; of a single server, that one."""
        metadata: ClusterMetadata = await self._ask(commands.GetClusterMetadata())
        return metadata

    async def get_snapshot(
        self,
        types: Iterable[SnapshotType] = (SnapshotType.ALL,),
        *,
        compression: SnapshotCompression = SnapshotCompression.DEFLATED,
    ) -> bytes:
        """Returns a zip archive that describes the server, for finding a fault in it."""
        wanted = tuple(types)
        if not wanted:
            raise InvalidArgument("types has no type; at least 1 is needed")
        if SnapshotType.ALL in wanted and len(wanted) > 1:
            raise InvalidArgument("types has ALL beside others; ALL stands alone")
        archive: bytes = await self._ask(commands.GetSnapshot(compression, wanted))
        return archive
