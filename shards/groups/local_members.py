"""What this shard's sessions hold in their groups, by the latest orders of shard 0.

Owned by the worker's loop. Only connected sessions are in here, and only groups that exist: a
session that ends, and a group that is deleted, take their entries along. Newer orders replace
older ones, whichever way they came.
"""

from collections.abc import Callable, Iterable

from borzoi.shards.changes.service import MetadataService
from borzoi.shards.groups.requests import Assign, Report
from borzoi.shards.metadata.effects import Effects, GroupRef
from borzoi.shards.rings.lending import tell
from borzoi.shards.rings.requests import Done
from borzoi.shards.rosters.assignment import (
    NO_MEMBER,
    Assignment,
    decode_assignments,
    encode_assignments,
)
from borzoi.shards.rosters.share import Share


class LocalMembers:
    """The memberships of the sessions of one shard, by client and group."""

    def __init__(self, metadata: MetadataService, is_connected: Callable[[int], bool]) -> None:
        self._metadata = metadata
        self._is_connected = is_connected
        self._by_client: dict[int, dict[GroupRef, Share]] = {}

    def find(self, client_id: int, group: GroupRef, birth: int) -> Share | None:
        """What a session holds in a group, None if it is no member."""
        groups = self._by_client.get(client_id)
        share = None if groups is None else groups.get(group)
        return share if share is not None and share.assignment.birth == birth else None

    def of_client(self, client_id: int) -> tuple[Assignment, ...]:
        """All memberships of a session, by group."""
        groups = self._by_client.get(client_id, {})
        return tuple(groups[group].assignment for group in sorted(groups))

    def groups_of(self, client_id: int) -> tuple[GroupRef, ...]:
        """The groups a session is a member of."""
        return tuple(sorted(self._by_client.get(client_id, ())))

    def put(self, assignments: Iterable[Assignment]) -> None:
        """Take orders of shard 0."""
        state = self._metadata.refresh()
        for one in assignments:
            topic = state.find_topic(one.group.stream_id, one.group.topic_id)
            group = None if topic is None else topic.groups.get(one.group.group_id)
            if group is None or group.birth != one.birth or not self._is_connected(one.client_id):
                continue
            groups = self._by_client.setdefault(one.client_id, {})
            known = groups.get(one.group)
            if known is not None and known.assignment.generation > one.generation:
                continue
            if one.member_id != NO_MEMBER:
                groups[one.group] = Share(one)
            else:
                groups.pop(one.group, None)
            if not groups:
                del self._by_client[one.client_id]

    def forget_client(self, client_id: int) -> bool:
        """A session is gone, or moves on; whether it was a member of anything."""
        return self._by_client.pop(client_id, None) is not None

    def take_effects(self, effects: Effects) -> None:
        """Deleted groups have no members."""
        gone = set(effects.groups_removed)
        if not gone:
            return
        for client_id, groups in list(self._by_client.items()):
            for group in gone & groups.keys():
                del groups[group]
            if not groups:
                del self._by_client[client_id]

    def serve_assign(self, _shard: int, _request: Assign, lent: memoryview, done: Done) -> None:
        """Orders of shard 0 in its buffer."""
        self.put(decode_assignments(bytes(lent)))
        done(0)

    def serve_report(self, _shard: int, _request: Report, lent: memoryview, done: Done) -> None:
        """Write everything into the buffer of a shard 0 that has just been born."""
        tell(lent, self.report(), done)

    def report(self) -> bytes:
        """Everything, for a shard 0 that has just been born."""
        return encode_assignments(
            [one.assignment for groups in self._by_client.values() for one in groups.values()]
        )
