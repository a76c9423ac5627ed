"""What the settings of the QUIC door come to: windows, times and sizes, as the library takes them.

Always: a window is at least what one datagram brings, so that no setting stops a client for good.
"""

from typing import Final, NamedTuple

from qh3.quic.configuration import QuicConfiguration

from borzoi.quantities import seconds
from borzoi.shards.datagrams.packets import CONNECTION_ID_SIZE
from borzoi.shards.settings.schema import Quic
from borzoi.shards.tls.certificate import Certificate

DATAGRAM_SIZE_MIN: Final = 1200
DATAGRAM_SIZE_MAX: Final = 1452
"""The path is not probed: a longer datagram would not cross an Ethernet over IPv6."""

WINDOW_MIN: Final = 16 * 1024
NEVER_S: Final = 365 * 24 * 3600.0


class QuicRules(NamedTuple):
    """What holds for the clients of this door."""

    receive_window: int
    send_window: int
    datagram_size: int
    idle_timeout_s: float
    keep_alive_s: float  # 0: nothing is sent to keep a connection alive


def quic_rules(settings: Quic) -> QuicRules:
    """As the configuration says."""
    return QuicRules(
        receive_window=max(WINDOW_MIN, settings.receive_window),
        send_window=max(WINDOW_MIN, settings.send_window),
        datagram_size=min(DATAGRAM_SIZE_MAX, max(DATAGRAM_SIZE_MIN, settings.initial_mtu)),
        idle_timeout_s=seconds(settings.max_idle_timeout) or NEVER_S,
        keep_alive_s=seconds(settings.keep_alive_interval),
    )


def server_configuration(rules: QuicRules, certificate: Certificate) -> QuicConfiguration:
    """For connections that begin from now on: no ALPN, no resumption, QUIC version 1."""
    configuration = QuicConfiguration(
        is_client=False,
        connection_id_length=CONNECTION_ID_SIZE,
        idle_timeout=rules.idle_timeout_s,
        max_data=rules.receive_window,
        max_stream_data=rules.receive_window,
        max_datagram_size=rules.datagram_size,
    )
    configuration.load_cert_chain(certificate.chain, certificate.key)
    return configuration
