"""The QUIC library, with what it does not offer: back-pressure, reset tokens, datagrams in bulk.

`qh3` grants a client more to send when an event leaves its core. Its own class takes all events at
once, so that a client could fill the memory of a broker that is busy. This one leaves them there
while it is held: the client gets no credit, and stops at the window. Acknowledgements and losses
are not events and go on. Its own way to ask for datagrams parses each of them once more for a log
that is not kept. All this lies below the public interface of the library, so its version is pinned
in pyproject.toml and tests/shards/quic/test_library.py shows that it holds.
"""

import logging
from collections.abc import Callable
from typing import Any, Final, TypeVar

from qh3.quic.configuration import QuicConfiguration
from qh3.quic.connection import QuicConnection, QuicConnectionError
from qh3.quic.packet import QuicErrorCode
from qh3.quic.tls_bridge import QuicTlsBridge

from borzoi.shards.datagrams.tokens import Validated
from borzoi.shards.datagrams.udp import Peer

# It warns of every client that closes its connection.
logging.getLogger("quic").setLevel(logging.CRITICAL)

PACE_S: Final = 0.001
"""Timers of the loop are no finer, either: a nearer one would be asked for again and again."""

ENDED: Final = frozenset({"draining", "terminated"})
_T = TypeVar("_T")


class HeldQuic(QuicConnection):
    """The server's side of one QUIC connection, whose events can be held back."""

    def __init__(
        self,
        configuration: QuicConfiguration,
        ids: Validated,
        reset_token_of: Callable[[bytes], bytes],
    ) -> None:
        super().__init__(
            configuration=configuration,
            original_destination_connection_id=ids.original,
            retry_source_connection_id=ids.retry,
        )
        self._reset_token = reset_token_of(self.host_cid)
        self.is_held = False

    @property
    def has_ended(self) -> bool:
        """Whether the client has closed, or was silent for too long."""
        return self._core is not None and self._core.state in ENDED

    @property
    def is_open(self) -> bool:
        """Whether the handshake is done, and nothing has ended the connection."""
        return self._handshake_complete and self._close_event is None

    def datagrams_to_send(self, now: float) -> list[tuple[bytes, Peer]]:
        """What leaves now, and where to."""
        if self._core is None:
            return []
        return self._call_core(_poll_all, self._core.poll_transmit, now)

    def due_at(self, now: float) -> float | None:
        """When something is to be done, whatever arrives; None: nothing.

        The library paces: it wants each datagram to leave at a time of its own. Those of `PACE_S`
        leave together here, in one call and at one wake-up.
        """
        due = self.get_timer()
        return None if due is None else max(due, now + PACE_S)

    def takes(self, stream_id: int) -> bool:
        """Whether the client still wants what is said on a stream; it may stop or reset it."""
        return self._stream_can_send(stream_id)

    def let_go(self) -> None:
        """Hand out the events that were held back."""
        self.is_held = False
        if self._core is not None:
            self._drain_core()

    def _call_core(self, operation: Callable[..., _T], *args: Any) -> _T:
        """As the library does; whatever its core objects to is one kind of error."""
        try:
            return operation(*args)
        except (RuntimeError, ValueError) as error:
            raise QuicConnectionError(QuicErrorCode.INTERNAL_ERROR, None, str(error)) from error

    def _drain_core(self) -> None:
        if not self.is_held or self.has_ended:
            super()._drain_core()

    def _create_tls(self, remote_source_cid: bytes | None) -> QuicTlsBridge:
        """As the library does, with a reset token that outlives this process."""
        bridge = super()._create_tls(remote_source_cid)
        bridge.stateless_reset_token = self._reset_token
        kind, _ = bridge.tls.handshake_extensions[0]
        bridge.tls.handshake_extensions[0] = (kind, bridge.serialize_transport_parameters())
        return bridge


def _poll_all(
    transmit: Callable[[float], tuple[Any, ...] | None], now: float
) -> list[tuple[bytes, Peer]]:
    made = []
    while (one := transmit(now)) is not None:
        made.append((one[0], one[1]))
    return made
