"""The streams of Liftbridge as calls use them: found by name, by subject, and in one life each.

Owns what is derived from the metadata: routes to partitions and the index of subjects. It is made
again when the version of the metadata is another one. The NATS side and the gRPC side share it.
"""

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from borzoi.liftbridge.ports import Action, NotAllowed, Place, PlaceGone, Store, StreamView, User
from borzoi.liftbridge.stored import subject_pair
from borzoi.liftbridge.subjects import AttachedPartition, SubjectIndex, partition_subject

CURSORS: Final = "__cursors"
ACTIVITY: Final = "__activity"
RESERVED_NAMES: Final = frozenset({CURSORS, ACTIVITY})
NAMESPACE: Final = "liftbridge-default"
BROKER_ID: Final = "borzoi"


@dataclass(frozen=True, slots=True)
class Route:
    """A partition of a stream, ready to be published to."""

    view: StreamView
    partition: int
    place: Place
    subject: str
    """The subject of the partition."""
    subject_header: bytes
    """The user header that says it; b"" if it is too long for one."""
    copies: tuple[tuple[AttachedPartition, ...], ...]
    """Partitions of other streams that get what is published here, too: their subjects match.

    Of each row one gets it: those of one group share the messages.
    """


class Bridge:
    """The streams of one broker, from one of its shards."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._version = -1
        self._routes: dict[tuple[str, int], Route] = {}
        self._allowed: set[tuple[User, Action, str]] = set()
        self._index: SubjectIndex | None = None

    def streams(self) -> Mapping[str, StreamView]:
        """All streams by name."""
        self._refresh()
        return self.store.streams()

    def stream(self, name: str) -> StreamView:
        """A stream; PlaceGone if there is none of that name."""
        view = self.streams().get(name)
        if view is None:
            raise PlaceGone(f"No such stream: {name}")
        return view

    def route(self, stream: str, partition: int) -> Route:
        """A partition of a stream; PlaceGone if there is none."""
        self._refresh()
        found = self._routes.get((stream, partition))
        if found is None:
            found = self._routes[stream, partition] = self._new_route(stream, partition)
        return found

    def require(self, user: User, action: Action, stream: str) -> None:
        """Raise NotAllowed unless the user may do this; remembered until something changes."""
        self._refresh()
        asked = (user, action, stream)
        if asked not in self._allowed:
            self.store.require(user, action, stream)
            self._allowed.add(asked)

    def may(self, user: User, action: Action, stream: str) -> bool:
        """Whether the user may."""
        try:
            self.require(user, action, stream)
        except NotAllowed:
            return False
        return True

    def attached(self, subject: str) -> list[AttachedPartition]:
        """Partitions that get what is published on a subject.

        Streams of one group share the messages of a subject: one of them, by chance, gets it.
        """
        return [random.choice(some) for some in self._of_groups(subject, None)]

    def listening(self, subject: str) -> list[AttachedPartition]:
        """All partitions whose subjects match, whichever groups they are in."""
        self._refresh()
        return list(self._subjects().find(subject))

    def _new_route(self, stream: str, partition: int) -> Route:
        view = self.stream(stream)
        if not 0 <= partition < view.partitions:
            raise PlaceGone(f"No such partition: {partition}")
        subject = partition_subject(view.subject, partition)
        return Route(
            view,
            partition,
            self.store.place(stream, partition),
            subject,
            subject_pair(subject),
            tuple(self._of_groups(subject, AttachedPartition(stream, partition))),
        )

    def _of_groups(
        self, subject: str, named: AttachedPartition | None
    ) -> Iterator[tuple[AttachedPartition, ...]]:
        """Who gets what is published on a subject, besides the one that was named: one of each."""
        streams = self.streams()
        groups: dict[str, list[AttachedPartition]] = {}
        served = None if named is None else streams[named.stream].group
        for one in self._subjects().find(subject):
            group = streams[one.stream].group
            if one == named or (group and group == served):
                continue
            if group:
                groups.setdefault(group, []).append(one)
            else:
                yield (one,)
        yield from map(tuple, groups.values())

    def _subjects(self) -> SubjectIndex:
        if self._index is None:
            self._index = SubjectIndex(
                (partition_subject(view.subject, number), AttachedPartition(view.name, number))
                for view in self.store.streams().values()
                for number in range(view.partitions)
            )
        return self._index

    def _refresh(self) -> None:
        version = self.store.version()
        if version != self._version:
            self._version = version
            self._routes.clear()
            self._allowed.clear()
            self._index = None
