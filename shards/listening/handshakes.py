"""The door of TLS: connections that are accepted and whose handshake is not done yet.

The event loop calls a connection's protocol only behind the handshake. So these sockets are
accepted here, and counted from the beginning: a half handshake takes a place before the login, of
its address, gives way like others, and ends after the login timeout.

Always: a socket that was accepted has a place until it is closed or its connection has one.
"""

import asyncio
import errno
import logging
import socket
from collections.abc import Callable
from typing import Final, Protocol

from borzoi.shards.identity.origins import origin_of
from borzoi.shards.listening.encrypted import Encrypted
from borzoi.shards.loop.rarely import Rarely
from borzoi.shards.loop.tasks import Tasks
from borzoi.shards.tls.context import ServerContext

LOG: Final = logging.getLogger(__name__)

ACCEPTED_PER_TURN_MAX: Final = 16
"""A handshake costs a millisecond or two: others have their turn between so many."""

PAUSE_S: Final = 1.0
"""So long nothing is accepted when the process or the machine has no more descriptors."""

SCARCE: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


class Leaving(Protocol):
    """What has a place of a shard, and can be asked to leave it."""

    @property
    def is_idle(self) -> bool:
        """Whether it has nothing in work."""

    def close(self, parting_status: int) -> None:
        """End it."""


class Handshake:
    """One socket on its way to a connection. Its place is that of a guest without a login."""

    is_idle: Final = True

    def __init__(self) -> None:
        self.user_id: int | None = None
        self.task: asyncio.Task[None] | None = None
        self.is_over = False

    def close(self, _parting_status: int) -> None:
        """Give up: there is nothing yet to say goodbye with."""
        self.abort()

    def abort(self) -> None:
        """The same."""
        self.is_over = True
        if self.task is not None:
            self.task.cancel()


class HandshakePlaces(Protocol):
    """The places of a shard, as far as handshakes take them."""

    def admits(self, origin: str) -> bool:
        """Whether one more may come from there."""

    def add(self, visit: Handshake, guest: Handshake, origin: str) -> None:
        """One has come in."""

    def remove(self, visit: Handshake) -> None:
        """One has gone."""


class Handshakes:
    """Those of one shard, by the protocols that they will have."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        tasks: Tasks,
        places: HandshakePlaces,
        give_way: Callable[[], None],
        timeout_s: float,
    ) -> None:
        self._loop = loop
        self._tasks = tasks
        self._places = places
        self._give_way = give_way
        self._timeout_s = timeout_s
        self._shaking: dict[object, Handshake] = {}
        self._rarely = Rarely()
        self.failed_count = 0

    def begin(
        self,
        accepted: socket.socket,
        host: str,
        context: ServerContext,
        connection: object,
        protocol: asyncio.BaseProtocol,
    ) -> None:
        """Shake hands, and then let `protocol` carry on; `connection` is what will have a place."""
        origin = origin_of(host)
        if not self._places.admits(origin):
            accepted.close()
            return
        self._give_way()
        handshake = self._shaking[connection] = Handshake()
        self._places.add(handshake, handshake, origin)
        self._tasks.start(self._shake(handshake, accepted, context, connection, protocol))

    def is_done(self, connection: object) -> bool:
        """Whether a connection comes from a handshake, whose place it takes now."""
        handshake = self._shaking.pop(connection, None)
        if handshake is None:
            return False
        self._places.remove(handshake)
        return True

    def close(self) -> None:
        """Give up all of them."""
        for handshake in list(self._shaking.values()):
            handshake.close(0)

    async def _shake(
        self,
        handshake: Handshake,
        accepted: socket.socket,
        context: ServerContext,
        connection: object,
        protocol: asyncio.BaseProtocol,
    ) -> None:
        handshake.task = asyncio.current_task()
        try:
            if handshake.is_over:
                accepted.close()
                return
            encrypted = Encrypted(self._loop, context, protocol)
            transport, _ = await self._loop.connect_accepted_socket(lambda: encrypted, accepted)
            try:
                async with asyncio.timeout(self._timeout_s):
                    await encrypted.opened
            except BaseException:
                transport.abort()
                raise
        except OSError as error:
            self._failed(accepted, error)
        finally:
            self.is_done(connection)

    def _failed(self, accepted: socket.socket, error: OSError) -> None:
        """A handshake came to nothing, through the client or its deadline. Logged now and then."""
        self.failed_count += 1
        accepted.close()
        if self._rarely.is_due("handshake", self._loop.time()):
            reason = getattr(error, "reason", None) or error
            LOG.info("no TLS with a client: %s (%d so far)", reason, self.failed_count)


class EncryptedDoor:
    """A listening socket; `arrived` takes what it accepts, and the host of the peer."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        listening: socket.socket,
        arrived: Callable[[socket.socket, str], None],
        pause_s: float = PAUSE_S,
    ) -> None:
        self._loop = loop
        self._listening = listening
        self._arrived = arrived
        self._pause_s = pause_s
        self._pause: asyncio.TimerHandle | None = None
        self._loop.add_reader(listening.fileno(), self._accept)

    def close(self) -> None:
        """Accept no more."""
        if self._pause is not None:
            self._pause.cancel()
        else:
            self._loop.remove_reader(self._listening.fileno())
        self._listening.close()

    def _accept(self) -> None:
        for _ in range(ACCEPTED_PER_TURN_MAX):
            try:
                accepted, peer = self._listening.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno not in SCARCE:
                    # It was reset between the kernel's accept and ours.
                    continue
                pause_s = self._pause_s
                LOG.error("cannot accept a connection: %s; next try in %.0f s", error, pause_s)
                self._loop.remove_reader(self._listening.fileno())
                self._pause = self._loop.call_later(pause_s, self._go_on)
                return
            accepted.setblocking(False)
            self._arrived(accepted, peer[0])

    def _go_on(self) -> None:
        self._pause = None
        self._loop.add_reader(self._listening.fileno(), self._accept)
