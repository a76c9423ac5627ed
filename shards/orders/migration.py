"""Moving a client's socket to the shard that owns the partition it sends to.

From then on its sends need no hop. Once per connection, plain TCP only, at a moment when nothing of
it is in work. The descriptor is duplicated and goes through the supervisor to the other worker,
with the identity of the session. Then our transport closes its own copy, and the peer notices
nothing. Bytes that arrive meanwhile wait in the kernel until the other worker reads them.
"""

import logging
import os
import socket
from collections.abc import Callable
from typing import Final, Protocol

from borzoi.shards.orders.spec import Event, SessionState
from borzoi.shards.rings.peers import Peers

LOG: Final = logging.getLogger(__name__)


class Movable(Protocol):
    """The transport side of a session that may move."""

    def let_go(self) -> socket.socket | None:
        """The socket, if nothing is in work or unsent; it is not ours any more then."""


class Migration:
    """Hands sockets over. Knows where to, not why."""

    def __init__(
        self,
        peers: Peers,
        enabled: bool,
        tell: Callable[[Event, tuple[int, ...]], None],
    ) -> None:
        self._peers = peers
        self._tell = tell
        self.enabled = enabled

    def hand_over(self, connection: Movable, shard: int, session: SessionState) -> bool:
        """Move a connection, if it is idle and the other shard lives; whether it has left."""
        if self._peers.is_away(shard):
            return False
        moving = connection.let_go()
        if moving is None:
            return False
        LOG.debug("%s moves to shard %d", session.address, shard)
        fd = moving.detach()
        try:
            self._tell(Event("hand_over", shard=shard, session=session), (fd,))
        finally:
            os.close(fd)
        return True
