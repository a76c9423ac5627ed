"""The QUIC door: which datagram belongs to which connection, and who may begin one.

Owns the socket and the table of connection ids. A client has to prove its address before anything
is kept for it: its first packet is answered by a retry, which is shorter, and only the token in
that, brought back from the same address, makes a connection (tokens.py). From then on the
connection is one without a login like those of other doors: it has a place, gives way, and ends
after the login timeout, whether its handshake comes to an end or not.

Always: what is sent to an address that has proved nothing is shorter than what came from there.
"""

import asyncio
import logging
import os
from collections.abc import Mapping
from typing import Final

from qh3.quic.packet import (
    QuicProtocolVersion,
    encode_quic_retry,
    encode_quic_version_negotiation,
)

from borzoi.router.pool import MemoryPool
from borzoi.shards.datagrams.packets import (
    CONNECTION_ID_SIZE,
    INITIAL_SIZE_MIN,
    NEGOTIATION,
    LongHeader,
    destination_of,
    read_long,
    stateless_reset,
)
from borzoi.shards.datagrams.tokens import ResetTokens, RetryTokens
from borzoi.shards.datagrams.udp import Datagrams, Peer, open_datagram_socket
from borzoi.shards.doors.streamed import StreamedConnection
from borzoi.shards.listening.listener import Listener
from borzoi.shards.listening.sockets import bound_address
from borzoi.shards.loop.rarely import Rarely
from borzoi.shards.quic.library import HeldQuic
from borzoi.shards.quic.link import QuicLink
from borzoi.shards.quic.rules import quic_rules, server_configuration
from borzoi.shards.settings.schema import Quic
from borzoi.shards.tls.certificate import Certificate

LOG: Final = logging.getLogger(__name__)

DOOR: Final = "quic"
VERSIONS: Final = (int(QuicProtocolVersion.VERSION_1),)

HANDSHAKES_PER_TURN_MAX: Final = 8
"""A handshake costs a millisecond or two. What comes beyond is dropped, and its client tries again
within a second."""

ANSWERS_PER_TURN_MAX: Final = 64
"""Retries, resets and negotiations of one turn: to what belongs to no connection."""


class QuicDoor:
    """Receives datagrams for all connections of this shard. Implements LinkDoor."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        listener: Listener,
        pool: MemoryPool,
        settings: Quic,
        *,
        shares_port: bool,
    ) -> None:
        self._loop = loop
        self._listener = listener
        self._pool = pool
        self._settings = settings
        self._shares_port = shares_port
        self._rules = quic_rules(settings)
        self._retries = RetryTokens()
        self._links: dict[bytes, QuicLink] = {}
        self._ids: dict[QuicLink, set[bytes]] = {}
        self._touched: dict[QuicLink, None] = {}
        self._rarely = Rarely()
        self._handshakes_left = HANDSHAKES_PER_TURN_MAX
        self._answers_left = ANSWERS_PER_TURN_MAX
        self._datagrams: Datagrams | None = None

    def show(self, certificates: Mapping[str, Certificate]) -> None:
        """Show this certificate from the next handshake on; connections keep what they have."""
        certificate = certificates[DOOR]
        self._configuration = server_configuration(self._rules, certificate)
        self._resets = ResetTokens(certificate.key)

    async def listen(self, address: str) -> str:
        """Open the socket; the address with the real port."""
        bound = open_datagram_socket(address, self._settings.socket, shares_port=self._shares_port)
        self._datagrams = Datagrams(self._loop, bound, self._arrived, self._drained)
        return bound_address(bound)

    def close(self) -> None:
        """End all connections, and receive no more."""
        for link in list(self._ids):
            link.abort()
        if self._datagrams is not None:
            self._datagrams.close()

    # What links call.

    @property
    def is_congested(self) -> bool:
        """Whether the kernel takes no more for now."""
        return self._datagrams is not None and self._datagrams.is_congested

    def send(self, datagrams: list[bytes], peer: Peer, local: str | None) -> None:
        """Send datagrams of a connection."""
        assert self._datagrams is not None, "only an open door has connections"
        self._datagrams.send(datagrams, peer, local)

    def send_later(self, link: QuicLink) -> None:
        """Settle a link when the kernel takes datagrams again, or others arrive."""
        self._touched[link] = None

    def known_as(self, connection_id: bytes, link: QuicLink) -> None:
        """The client of a link may use this id from now on."""
        self._links[connection_id] = link
        self._ids[link].add(connection_id)

    def not_known_as(self, connection_id: bytes) -> None:
        """The client does not use this id any more."""
        link = self._links.pop(connection_id, None)
        if link is not None:
            self._ids[link].discard(connection_id)

    def failed(self, link: QuicLink, peer: Peer) -> None:
        """The bytes of strangers in a library of strangers: no reason to end the worker."""
        if self._rarely.is_due(peer[0], self._loop.time()):
            LOG.exception("closed a QUIC connection of %s: the library failed on it", peer[0])
        link.fail()

    def gone(self, link: QuicLink) -> None:
        """Forget a connection that has ended."""
        for connection_id in self._ids.pop(link, ()):
            del self._links[connection_id]
        self._touched.pop(link, None)

    # Datagrams.

    def _arrived(self, datagrams: list[bytes], peer: Peer, local: str | None) -> None:
        """Datagrams of one sender, in the order in which they came."""
        start, link = 0, self._links.get(destination_of(datagrams[0]))
        for end in range(1, len(datagrams)):
            other = self._links.get(destination_of(datagrams[end]))
            if other is not link:
                self._pass_on(link, datagrams[start:end], peer, local)
                # What was begun by these is known by now.
                start, link = end, self._links.get(destination_of(datagrams[end]))
        self._pass_on(link, datagrams[start:], peer, local)

    def _pass_on(
        self, link: QuicLink | None, datagrams: list[bytes], peer: Peer, local: str | None
    ) -> None:
        if link is None:
            for datagram in datagrams:
                self._take_unknown(datagram, peer, local)
            return
        self._receive(link, datagrams, peer)

    def _receive(self, link: QuicLink, datagrams: list[bytes], peer: Peer) -> None:
        try:
            link.receive(datagrams, peer)
        except Exception:
            self.failed(link, peer)
            return
        self._touched[link] = None

    def _drained(self) -> None:
        """The end of a turn: every connection that got something sees what it was."""
        self._handshakes_left = HANDSHAKES_PER_TURN_MAX
        self._answers_left = ANSWERS_PER_TURN_MAX
        touched, self._touched = self._touched, {}
        for link in touched:
            link.settle()

    # Datagrams of no connection.

    def _take_unknown(self, datagram: bytes, peer: Peer, local: str | None) -> None:
        link = self._links.get(destination_of(datagram))
        if link is not None:
            # Of a connection that was begun a moment ago.
            self._receive(link, [datagram], peer)
            return
        header = read_long(datagram)
        if header is None:
            self._reset(datagram, peer, local)
        elif header.version == NEGOTIATION or len(datagram) < INITIAL_SIZE_MIN:
            return
        elif header.version not in VERSIONS:
            offered = encode_quic_version_negotiation(
                source_cid=header.destination,
                destination_cid=header.source,
                supported_versions=list(VERSIONS),
            )
            self._answer(datagram, offered, peer, local)
        elif header.is_initial:
            if header.token:
                self._begin(datagram, header, peer, local)
            else:
                self._retry(datagram, header, peer, local)

    def _answer(self, datagram: bytes, answer: bytes, peer: Peer, local: str | None) -> None:
        """Answer what belongs to no connection, by less than it was."""
        if self._answers_left and len(answer) < len(datagram):
            self._answers_left -= 1
            self.send([answer], peer, local)

    def _reset(self, datagram: bytes, peer: Peer, local: str | None) -> None:
        """Let a client know that its connection is gone: with the worker that had it, mostly."""
        destination = destination_of(datagram)
        if destination and not datagram[0] & 0x80:
            answer = stateless_reset(datagram, self._resets.of(destination))
            if answer is not None:
                self._answer(datagram, answer, peer, local)

    def _retry(self, datagram: bytes, header: LongHeader, peer: Peer, local: str | None) -> None:
        retry_id = os.urandom(CONNECTION_ID_SIZE)
        token = self._retries.make(peer, header.destination, retry_id, self._loop.time())
        answer = encode_quic_retry(
            version=header.version,
            source_cid=retry_id,
            destination_cid=header.source,
            original_destination_cid=header.destination,
            retry_token=token,
        )
        self._answer(datagram, answer, peer, local)

    def _begin(self, datagram: bytes, header: LongHeader, peer: Peer, local: str | None) -> None:
        ids = self._retries.check(peer, header.token, self._loop.time())
        if ids is None or ids.retry != header.destination or not self._handshakes_left:
            return
        self._handshakes_left -= 1
        quic = HeldQuic(self._configuration, ids, self._resets.of)
        connection = self._listener.new_connection(DOOR, StreamedConnection)
        link = QuicLink(self._loop, self, quic, connection, self._pool, self._rules, peer, local)
        self._ids[link] = set()
        if link.begin():
            self.known_as(header.destination, link)
            self.known_as(quic.host_cid, link)
            self._receive(link, [datagram], peer)
