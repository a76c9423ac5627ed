"""Every door that carries the binary protocol: the same requests have the same answers."""

import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, cast

import pytest

from borzoi.protocol.codes import Code
from borzoi.protocol.commands import GetClient, GetClients, GetClusterMetadata, GetMe
from borzoi.protocol.commands.streams import CreateStream, DeleteStream
from borzoi.protocol.framing import encode_request
from borzoi.protocol.responses.clients import Transport
from tests.broker import QUIC, BrokerProcess, standing
from tests.certificates import Authority
from tests.conftest import NewBroker
from tests.integration.every_command import REQUESTS
from tests.integration.launching import run_to_its_end
from tests.shard_wires import ONE_SHARD, TWO_SHARDS
from tests.topics import topic_of
from tests.ways import WAYS, client_context, door_of, wire_through, with_tls
from tests.websocket_frames import (
    BINARY,
    CLOSE,
    PING,
    PONG,
    Frame,
    WebSocketStream,
    frame,
    request,
)
from tests.wire import PING as PING_REQUEST
from tests.wire import Answer, Closed, Wire

KIB = 1024
OK = Answer(0, b"")


class Brokers(NamedTuple):
    plain: BrokerProcess
    encrypted: BrokerProcess
    context: ssl.SSLContext

    def wire(self, way: str, **named: Any) -> Wire:
        broker = self.encrypted if way in ("tls", "wss") else self.plain
        return wire_through(broker, way, self.context, **named)


@pytest.fixture(scope="module")
def brokers(
    standing_broker: BrokerProcess, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Brokers]:
    folder = tmp_path_factory.mktemp("doors")
    authority = Authority()
    settings = {**TWO_SHARDS, **with_tls(authority.issue(folder))}
    with standing(folder / "data", settings) as encrypted:
        yield Brokers(standing_broker, encrypted, client_context(authority.pem))


def stream_of(wire: Wire) -> WebSocketStream:
    return cast(WebSocketStream, wire.socket)


@pytest.mark.parametrize("way", WAYS)
def test_every_command_before_login(brokers: Brokers, way: str) -> None:
    with brokers.wire("tcp", login=False) as plain, brokers.wire(way, login=False) as wire:
        for code, payload in REQUESTS.items():
            if code not in (Code.LOGIN_USER, Code.LOGIN_WITH_PERSONAL_ACCESS_TOKEN):
                assert wire.request(code, payload) == plain.request(code, payload), code


@pytest.mark.parametrize("way", WAYS)
def test_messages_of_all_sizes_to_all_partitions(brokers: Brokers, way: str) -> None:
    with brokers.wire(way) as wire:
        wire.ask(CreateStream(way))
        wire.ask(topic_of(way, 8))
        for partition in range(8):
            # Half of the partitions belong to the other shard.
            wire.append(way, way, partition, [b"m" * KIB] * 1000)
            assert wire.payloads(way, partition) == [b"m" * KIB] * 1000
        sizes = [1, 60 * KIB, 65_300, 70_000, 300 * KIB, 5_000 * KIB]
        for size in sizes:
            wire.append(way, way, 0, [b"l" * size])
        # The answer is larger than what leaves in one piece.
        got = [len(message.payload) for message in wire.read(way, way, 0)]
        assert got == [KIB] * 1000 + sizes
        assert wire.is_in_step()
        wire.ask(DeleteStream(way))


@pytest.mark.parametrize("way", WAYS)
def test_many_requests_at_once_and_one_in_many_pieces(brokers: Brokers, way: str) -> None:
    with brokers.wire(way) as wire:
        wire.put(PING_REQUEST * 500)
        assert wire.answers(500) == [OK] * 500
        for number in range(len(PING_REQUEST)):
            wire.put(PING_REQUEST[number : number + 1])
        assert wire.answer() == OK


@pytest.mark.parametrize("way", WAYS)
def test_refused_frames_are_drained(brokers: Brokers, way: str) -> None:
    with brokers.wire(way, login=False) as wire:
        wire.put(encode_request(Code.SEND_MESSAGES, bytes(300 * KIB)))
        assert wire.answer().status == 40
        assert wire.is_in_step()


@pytest.mark.parametrize("way", WAYS)
def test_the_client_list_names_the_door(brokers: Brokers, way: str) -> None:
    with brokers.wire(way) as wire, brokers.wire("tcp") as other:
        me = wire.ask(GetMe()).client
        kinds = {"ws": Transport.WEBSOCKET, "wss": Transport.WEBSOCKET, "quic": Transport.QUIC}
        assert me.transport == kinds.get(way, Transport.TCP)
        assert me.address == f"127.0.0.1:{wire.port}"
        if way in ("tcp", "ws", "quic"):
            assert me in other.ask(GetClients())
            assert other.ask(GetClient(me.client_id)).client == me


def test_cluster_metadata_names_open_doors(brokers: Brokers, new_broker: NewBroker) -> None:
    with brokers.wire("tcp") as wire:
        (node,) = wire.ask(GetClusterMetadata()).nodes
        assert node.tcp_port == door_of(brokers.plain, "tcp").port
        assert node.websocket_port == door_of(brokers.plain, "ws").port
        assert node.quic_port == door_of(brokers.plain, "quic").port
    closed = new_broker(**ONE_SHARD, IGGY_WEBSOCKET_ENABLED="false")
    with Wire(closed) as wire:
        (node,) = wire.ask(GetClusterMetadata()).nodes
        assert (node.websocket_port, node.quic_port) == (0, 0)
    assert "WebSocket is at" not in closed.output()
    assert "QUIC is at" not in closed.output()


@pytest.mark.parametrize("door", ["websocket", "quic"])
def test_a_port_in_use_names_the_setting(brokers: Brokers, tmp_path: Path, door: str) -> None:
    at = door_of(brokers.plain, "ws" if door == "websocket" else door)
    variable = f"IGGY_{door.upper()}_ADDRESS"
    settings = {**ONE_SHARD, **QUIC, variable: f"{at.host}:{at.port}"}
    done = run_to_its_end(tmp_path / "other", **settings)
    assert done.returncode != 0
    assert f"borzoi: cannot listen on {at.host}:{at.port}" in done.stderr
    assert f"{door}.address or {variable} names another address" in done.stderr


# What is special to a WebSocket.


def test_a_message_in_fragments_with_pings_between(brokers: Brokers) -> None:
    with brokers.wire("ws") as wire:
        stream, below = stream_of(wire), stream_of(wire).below
        below.sendall(frame(BINARY, PING_REQUEST[:3], final=False))
        below.sendall(frame(PING, b"there?"))
        assert stream.next_frame() == Frame(PONG, b"there?")
        below.sendall(frame(0, PING_REQUEST[3:7], final=False) + frame(0, b"", final=False))
        below.sendall(frame(0, PING_REQUEST[7:] + PING_REQUEST))
        assert wire.answers(2) == [OK, OK]
        # Text is not for the broker.
        below.sendall(frame(1, b"hello") + frame(BINARY, PING_REQUEST))
        assert wire.answer() == OK
        assert stream.controls == []


def test_a_request_that_comes_with_the_upgrade(brokers: Brokers) -> None:
    below = Wire(door_of(brokers.plain, "ws"), login=False)
    below.put(request() + frame(BINARY, PING_REQUEST) * 3)
    stream = WebSocketStream(below.socket)
    assert stream._until(b"\r\n\r\n").startswith(b"HTTP/1.1 101 ")
    assert [stream.next_frame() for _ in range(3)] == [Frame(BINARY, bytes(8))] * 3


@pytest.mark.parametrize("way", ["ws", "wss"])
def test_a_close_is_answered_behind_the_answers(brokers: Brokers, way: str) -> None:
    with brokers.wire(way) as wire:
        stream = stream_of(wire)
        stream.below.sendall(
            frame(BINARY, PING_REQUEST * 200) + frame(CLOSE, b"\x03\xe8done") + b"nonsense"
        )
        assert wire.answers(200) == [OK] * 200
        assert stream.close_code() == 1000


HOSTILE = {
    "unmasked": (frame(BINARY, PING_REQUEST, mask=None), 1002),
    "2^63 bytes": (b"\x82\xff\x80" + bytes(7), 1002),
    "a long ping": (b"\x89\xfe\x00\x7e", 1002),
    "a reserved bit": (b"\xc2\x80", 1002),
    "a continuation of nothing": (frame(0, b"a"), 1002),
    "a bad close code": (frame(CLOSE, b"\x00\x01"), 1002),
    "a bad close text": (frame(CLOSE, b"\x03\xe8\xff"), 1007),
}


@pytest.mark.parametrize("way", ["ws", "wss"])
@pytest.mark.parametrize("what", HOSTILE)
def test_hostile_frames_end_the_connection(brokers: Brokers, way: str, what: str) -> None:
    sent, code = HOSTILE[what]
    with brokers.wire(way, login=False) as wire, brokers.wire(way, login=False) as other:
        stream = stream_of(wire)
        stream.below.sendall(frame(BINARY, PING_REQUEST) + sent)
        assert wire.answer() == OK
        assert stream.close_code() == code
        assert other.is_in_step()


def test_a_declared_length_reserves_nothing(brokers: Brokers) -> None:
    with brokers.wire("ws") as wire:
        below = stream_of(wire).below
        below.sendall(b"\x82\xff" + (2**63 - 1).to_bytes(8, "big") + bytes(4))
        below.sendall(PING_REQUEST * 3)
        assert wire.answers(3) == [OK] * 3


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n", 404),
        (b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", 426),
        (b"POST / HTTP/1.1\r\nHost: a\r\n\r\n", 405),
        (PING_REQUEST + b"\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"x" * 9000, 431),
        (b"x" * 100_000, 431),
    ],
)
def test_what_is_no_websocket_is_refused(brokers: Brokers, sent: bytes, status: int) -> None:
    with Wire(door_of(brokers.plain, "ws"), login=False) as wire:
        wire.put(sent)
        answer = b""
        while got := wire.socket.recv(64 * KIB):
            answer += got
        assert answer.startswith(b"HTTP/1.1 %d " % status)


def test_origins_and_unmasked_frames_as_configured(new_broker: NewBroker) -> None:
    broker = new_broker(
        **ONE_SHARD,
        IGGY_HTTP_CORS_ALLOWED_ORIGINS='["https://a.example"]',
        IGGY_WEBSOCKET_ACCEPT_UNMASKED_FRAMES="true",
        IGGY_WEBSOCKET_MAX_MESSAGE_SIZE="100 B",
    )
    for origin, status in ((None, 101), ("https://a.example", 101), ("https://b.example", 403)):
        with Wire(door_of(broker, "ws"), login=False) as wire:
            wire.put(request() if origin is None else request(Origin=origin))
            assert wire.socket.recv(KIB).startswith(b"HTTP/1.1 %d " % status)
            if status == 101:
                wire.put(frame(BINARY, PING_REQUEST, mask=None))
                assert wire.socket.recv(KIB) == frame(BINARY, bytes(8), mask=None)
                wire.put(frame(BINARY, bytes(101)))
                assert WebSocketStream(wire.socket).close_code() == 1009


# What is special to TLS.


def test_clear_text_at_an_encrypted_door(brokers: Brokers) -> None:
    for way in ("tcp", "ws"):
        with Wire(door_of(brokers.encrypted, way), login=False) as wire:
            wire.put(PING_REQUEST * 100)
            assert wire.drain_until_closed() < 100
    with brokers.wire("tls") as wire:
        assert wire.is_in_step()


def test_only_whom_the_certificate_names_is_trusted(brokers: Brokers) -> None:
    stranger = client_context(Authority("another").pem)
    with pytest.raises(Closed, match="CERTIFICATE_VERIFY_FAILED"):
        wire_through(brokers.encrypted, "tls", stranger)


@pytest.mark.slow
def test_clients_that_have_to_show_a_certificate(new_broker: NewBroker, tmp_path: Path) -> None:
    authority = Authority()
    files = authority.issue(tmp_path)
    settings = with_tls(
        files, client_auth="required", client_ca_file=str(authority.write(tmp_path))
    )
    broker = new_broker(**ONE_SHARD, **settings)
    known = client_context(authority.pem, authority.issue(tmp_path, "client"))
    for way in ("tls", "wss"):
        with wire_through(broker, way, known) as wire:
            assert wire.is_in_step()
        with pytest.raises((Closed, AssertionError, ssl.SSLError)):
            wire_through(broker, way, client_context(authority.pem))


@pytest.mark.slow
def test_a_certificate_that_the_broker_makes(new_broker: NewBroker) -> None:
    made = {"IGGY_TCP_TLS_ENABLED": "true", "IGGY_WEBSOCKET_TLS_ENABLED": "true"}
    broker = new_broker(**TWO_SHARDS, **made)
    for way, door in (("tls", "tcp"), ("wss", "websocket")):
        context = client_context(broker.data / "runtime" / f"{door}_certificate.pem")
        # The kernel chooses the shard: all of them show the same one.
        for _ in range(8):
            with wire_through(broker, way, context, login=False) as wire:
                assert wire.is_in_step()
