"""A peer that speaks HTTP/2 by itself, so that it can do what a client of gRPC never does."""

import socket
from types import TracebackType
from typing import Any, Final, Self

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import ConnectionTerminated, Event, StreamEnded, StreamReset, TrailersReceived
from h2.settings import SettingCodes

from borzoi.liftbridge.calls import framed
from borzoi.liftbridge.schema import SERVICE
from borzoi.shards.bridge_connections.connections import CALLS_MAX
from tests.broker import BrokerProcess
from tests.readable import is_readable

TIMEOUT_S: Final = 60.0
RECEIVE_SIZE: Final = 64 * 1024


class RawPeer:
    """One connection. What it receives it takes only when it is asked to."""

    def __init__(self, broker: BrokerProcess, *, window: int | None = None) -> None:
        host, _, port = broker.liftbridge_address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout=TIMEOUT_S)
        config = H2Configuration(client_side=True, header_encoding="utf-8")
        self.http = H2Connection(config)
        if window is not None:
            self.http.local_settings[SettingCodes.INITIAL_WINDOW_SIZE] = window
            self.http.local_settings.acknowledge()
        self.http.initiate_connection()
        self.flush()
        while self.http.remote_settings.max_concurrent_streams != CALLS_MAX:
            self.take(TIMEOUT_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self.socket.close()

    def flush(self) -> None:
        self.socket.sendall(self.http.data_to_send())

    def open(self, method: str, *more: tuple[str, str]) -> int:
        """The head of a call; its stream."""
        stream = self.http.get_next_available_stream_id()
        self.http.send_headers(stream, head(method, *more))
        return stream

    def send(self, stream: int, message: Any, *, end: bool = False) -> None:
        self.http.send_data(stream, framed(message.SerializeToString()), end_stream=end)

    def send_some(self, stream: int, data: bytes) -> int:
        """As many bytes as the peer takes at once; how many."""
        room = min(len(data), self.http.local_flow_control_window(stream))
        frame_size = self.http.max_outbound_frame_size
        for at in range(0, room, frame_size):
            self.http.send_data(stream, data[at : min(room, at + frame_size)])
        self.flush()
        return room

    def take(self, wait_s: float = 0.0) -> list[Event]:
        """What has come; nothing of it is acknowledged to the peer's flow control."""
        found: list[Event] = []
        while is_readable(self.socket, wait_s):
            data = self.socket.recv(RECEIVE_SIZE)
            if not data:
                raise ConnectionResetError("the peer has closed the connection")
            found += self.http.receive_data(data)
            wait_s = 0.0
        self.flush()
        return found

    def is_over(self, wait_s: float = 0.0) -> bool:
        """Whether the peer has closed this connection."""
        try:
            return any(isinstance(one, ConnectionTerminated) for one in self.take(wait_s))
        except OSError:
            return True

    def status_of(self, stream: int) -> str:
        """The gRPC status that ends a call, or that it was reset."""
        while True:
            for event in self.take(TIMEOUT_S):
                if isinstance(event, StreamReset) and event.stream_id == stream:
                    return "reset"
                if isinstance(event, TrailersReceived) and event.stream_id == stream:
                    headers: dict[Any, Any] = dict(event.headers or ())
                    return str(headers["grpc-status"])
                if isinstance(event, StreamEnded) and event.stream_id == stream:
                    return "ended"


def head(method: str, *more: tuple[str, str]) -> list[tuple[str, str]]:
    """The headers of a call."""
    return [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", f"/{SERVICE}/{method}"),
        (":authority", "localhost"),
        ("te", "trailers"),
        ("content-type", "application/grpc"),
        *more,
    ]
