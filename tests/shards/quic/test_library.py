"""What the broker needs of the library beyond its public interface: it holds with this version."""

import ssl
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from qh3.quic.configuration import QuicConfiguration
from qh3.quic.connection import QuicConnection
from qh3.quic.events import StreamDataReceived

from borzoi.shards.datagrams.tokens import Validated
from borzoi.shards.quic.library import HeldQuic
from borzoi.shards.quic.rules import WINDOW_MIN, QuicRules, quic_rules, server_configuration
from borzoi.shards.settings.schema import Quic
from borzoi.shards.tls.certificate import Certificate
from borzoi.shards.tls.self_signed import sign_for
from tests.certificates import Authority, Kind

HERE, THERE = ("127.0.0.1", 1), ("127.0.0.1", 2)
WINDOW = 100_000
RULES = quic_rules(Quic())
TOKEN = b"reset-token-0016"
ROUNDS_MAX = 3000


class Pair:
    """Both ends of a connection, without a network."""

    def __init__(self, certificate: Certificate, rules: QuicRules = RULES) -> None:
        self.client = QuicConnection(
            configuration=QuicConfiguration(
                is_client=True, verify_mode=ssl.CERT_NONE, server_name="localhost"
            )
        )
        self.client.connect(THERE, time.monotonic())
        first = self.client.datagrams_to_send(time.monotonic())[0][0]
        ids = Validated(first[6 : 6 + first[5]], b"r" * 8)
        self.server = HeldQuic(server_configuration(rules, certificate), ids, lambda _: TOKEN)
        # Without a retry there is none to name.
        self.server._retry_source_connection_id = None
        self.server.receive_datagram(first, HERE, time.monotonic())
        self.until(lambda: self.server.is_open)

    def pass_on(self) -> None:
        now = time.monotonic()
        for sender, receiver, address in (
            (self.client, self.server, HERE),
            (self.server, self.client, THERE),
        ):
            for datagram, _ in sender.datagrams_to_send(now):
                receiver.receive_datagram(datagram, address, now)
            timer = sender.get_timer()
            if timer is not None and timer <= now:
                sender.handle_timer(now)

    def until(self, condition: Callable[[], bool]) -> None:
        for _ in range(ROUNDS_MAX):
            self.pass_on()
            if condition():
                return
            time.sleep(0.0005)
        raise AssertionError("it does not come")

    def taken(self) -> int:
        """How many bytes of streams the server hands out."""
        size = 0
        while (event := self.server.next_event()) is not None:
            size += len(event.data) if isinstance(event, StreamDataReceived) else 0
        return size


@pytest.fixture(scope="module")
def certificate() -> Certificate:
    return Certificate(*sign_for("127.0.0.1"), self_signed=True)


def test_a_client_stops_at_the_window_while_events_are_held(certificate: Certificate) -> None:
    pair = Pair(certificate)
    pair.server.is_held = True
    pair.client.send_stream_data(0, bytes(20 * WINDOW))
    for _ in range(300):
        pair.pass_on()
        time.sleep(0.0005)
    assert pair.client.get_send_buffer_size() >= 19 * WINDOW
    assert pair.taken() == 0
    pair.server.let_go()
    size = pair.taken()
    assert 0 < size <= WINDOW
    # Then it goes on to the end.
    received = size

    def is_all_there() -> bool:
        nonlocal received
        received += pair.taken()
        return received == 20 * WINDOW

    pair.until(is_all_there)


def test_the_end_of_a_client_is_seen_while_events_are_held(certificate: Certificate) -> None:
    pair = Pair(certificate)
    pair.server.is_held = True
    assert not pair.server.has_ended
    pair.client.close()
    pair.until(lambda: pair.server.has_ended)
    assert not pair.server.is_open


def test_a_reset_token_ends_the_client(certificate: Certificate) -> None:
    pair = Pair(certificate)
    reset = b"\x40" + bytes(30) + TOKEN
    pair.client.receive_datagram(reset, THERE, time.monotonic())
    assert pair.client._core is not None
    assert pair.client._core.state in ("draining", "terminated")


@pytest.mark.parametrize("form", ["traditional", "pkcs8"])
@pytest.mark.parametrize("kind", ["ecdsa", "rsa"])
def test_keys_of_every_form(tmp_path: Path, kind: Kind, form: str) -> None:
    files = Authority().issue(tmp_path, kind=kind, form=form)
    assert Pair(Certificate(files.cert.read_bytes(), files.key.read_bytes())).server.is_open


def test_settings_become_rules() -> None:
    assert (RULES.receive_window, RULES.send_window) == (WINDOW, WINDOW)
    assert (RULES.idle_timeout_s, RULES.keep_alive_s, RULES.datagram_size) == (10, 5, 1452)
    least = quic_rules(Quic(receive_window=1, send_window=1, initial_mtu=1, max_idle_timeout=0))
    assert (least.receive_window, least.send_window) == (WINDOW_MIN, WINDOW_MIN)
    assert least.datagram_size == 1200
    assert least.idle_timeout_s > 86400
