"""The clients that are connected: this shard's sessions, and those of the other shards by asking.

A connection belongs to its shard and dies with it, so nothing of this is logged. A session is
registered from its connect until it is removed. That happens at its end, by moving to another
shard, or by the scan for silent clients. After the scan the connection itself may go on for a
while.

Always: a change of a user reaches every session of this shard, registered or not. Ids of users are
given out again, so one that was passed over would act as the next user.
"""

from collections.abc import Callable, Iterable
from typing import Final, Protocol

from borzoi.protocol.classic import back_to_back
from borzoi.protocol.responses.clients import ClientDetails, ClientInfo, Membership, Transport
from borzoi.shards.metadata.effects import Effects, GroupRef
from borzoi.shards.rings.gather import Gather
from borzoi.shards.rings.lending import tell
from borzoi.shards.rings.requests import Done, Telling

DETAILS: Final = back_to_back(ClientDetails)


class TellClients(Telling):
    """Write the connected clients into the lent buffer. Second result: their count."""

    KIND = 9


class Connected(Protocol):
    """What the registry of clients reads of a session."""

    client_id: int
    user_id: int | None
    transport: Transport
    address: str
    was_removed: bool
    """Whether the user of this session was deleted; it stays so to the end of the connection."""

    suspended_user: int | None
    """Whom it was logged in as when that user was made inactive."""

    last_heartbeat: float
    """When it last gave a sign of life, in seconds of the machine's monotonic clock."""


class Clients:
    """The sessions of this shard by client id."""

    def __init__(self, gather: Gather, groups_of: Callable[[int], Iterable[GroupRef]]) -> None:
        self._gather = gather
        self._sessions: dict[int, Connected] = {}
        self._evicted: dict[Connected, None] = {}
        self._groups_of = groups_of

    def add(self, session: Connected) -> None:
        """A client has connected, or come from another shard."""
        if not session.was_removed:
            self._sessions[session.client_id] = session

    def remove(self, session: Connected) -> None:
        """A client is gone."""
        self._evicted.pop(session, None)
        if self._sessions.get(session.client_id) is session:
            del self._sessions[session.client_id]

    def evict(self, session: Connected) -> None:
        """A client is so silent that it counts as gone; its connection goes on."""
        self.remove(session)
        self._evicted[session] = None

    def apply_effects(self, effects: Effects) -> list[int]:
        """End the sessions of users who were removed or made inactive; the ids of their clients.

        The connections stay. Those of a removed user are not registered any more, whether that was
        made inactive before or not. So the order of the two events makes no difference to the
        answers.
        """
        ended: list[int] = []
        if not effects.users_removed and not effects.users_disabled:
            return ended
        for session in [*self._sessions.values(), *self._evicted]:
            removed = effects.users_removed
            if session.user_id in removed or session.suspended_user in removed:
                session.was_removed = True
                self.remove(session)
            elif session.user_id in effects.users_disabled:
                session.suspended_user = session.user_id
            else:
                continue
            session.user_id = None
            ended.append(session.client_id)
        return ended

    def is_registered(self, session: Connected) -> bool:
        """Whether the session is the one known by its id."""
        return self._sessions.get(session.client_id) is session

    def knows(self, client_id: int) -> bool:
        """Whether a session of that id is connected to this shard."""
        return client_id in self._sessions

    @property
    def here_count(self) -> int:
        """How many clients are connected to this shard."""
        return len(self._sessions)

    def describe(self, session: Connected) -> ClientDetails:
        """A session as clients see it."""
        groups = tuple(Membership(*group) for group in self._groups_of(session.client_id))
        client = ClientInfo(
            session.client_id, session.user_id, session.transport, session.address, len(groups)
        )
        return ClientDetails(client, groups)

    def silent(self, since: float) -> list[Connected]:
        """The sessions whose last sign of life is older than that."""
        return [one for one in self._sessions.values() if one.last_heartbeat < since]

    async def everybody(self) -> list[ClientDetails]:
        """The clients of all shards by id."""
        found = [self.describe(session) for session in self._sessions.values()]
        for data in (await self._gather.reports(TellClients)).values():
            found.extend(DETAILS.decode(memoryview(data)))
        return sorted(found, key=lambda details: details.client.client_id)

    async def count(self) -> int:
        """How many clients are connected to all shards."""
        here = len(self._sessions)
        # Into a buffer of no bytes nothing is written, and all are counted.
        return here + sum(there for _, there, _ in await self._gather.answers(TellClients(0, 0)))

    def serve(self, lent: memoryview, done: Done) -> None:
        """Write our clients into a peer's buffer, or say how large it has to be."""
        described = [self.describe(one) for one in self._sessions.values()]
        tell(lent, DETAILS.encode(described), done, len(described))
