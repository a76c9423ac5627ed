"""Ways into the broker for tests that say what may be done, not how bytes travel.

A transport that is new to the broker is one more door in DOORS, and so is another generation of
clients; the tests of this folder run through all of them.
"""

import os
from collections.abc import Sequence
from http.client import HTTPConnection
from typing import Final, Protocol, TypeAlias

import psutil

from borzoi.protocol.batch import decode_batch
from borzoi.protocol.codes import Code, LaterCode
from borzoi.protocol.commands import Command, SendMessages
from borzoi.protocol.commands.sessions import LoginUser, LoginWithPersonalAccessToken, Register
from borzoi.protocol.consensus.codecs import CODECS
from borzoi.protocol.consensus.operations import OPERATIONS, QUERY
from borzoi.protocol.errors import InvalidCommand
from borzoi.protocol.framing import encode_request
from borzoi.protocol.generations import CLASSIC, encode_command
from borzoi.protocol.identifiers import PartitionId
from borzoi.protocol.older.codecs import UNKNOWN
from tests.access.http_channel import HttpChannel, Request
from tests.broker import BrokerProcess, wait_for
from tests.consensus_wire import CODES, VERSION, ConsensusWire, send_payload
from tests.older_wire import OlderWire
from tests.quic_socket import Quic, QuicSocket
from tests.ways import door_of
from tests.websocket_frames import as_socket
from tests.wire import TIMEOUT_S, Wire

ROUNDS_MAX: Final = 32
IDLE_TIMEOUT_S: Final = 600.0
"""A session waits for its turn that long, and says nothing meanwhile."""

NOT_IN_GENERATION: Final = -1
"""For a command that clients of that generation do not know: it is refused as unknown."""


class Channel(Protocol):
    """A session as one of the users."""

    def login(self, username: str, password: str) -> int:
        """Log in; the status."""

    def statuses(self, requests: Sequence[Request]) -> list[int]:
        """Send all of them and then read the answers."""

    def close(self) -> None:
        """End the session."""


class Door(Protocol):
    """A transport."""

    @property
    def shards(self) -> tuple[int, ...]:
        """Where it is."""

    @property
    def is_encrypted(self) -> bool:
        """Whether it is one of a broker with TLS."""

    def channels(self, broker: BrokerProcess, per_shard: int) -> dict[int, list[Channel]]:
        """So many sessions on each shard, by shard."""


class TcpChannel:
    """One TCP connection; requests are pipelined."""

    def __init__(self, broker: BrokerProcess) -> None:
        self.wire = Wire(broker, login=False)

    def login(self, username: str, password: str) -> int:
        return self.wire.request(Code.LOGIN_USER, encode_command(LoginUser(username, password)))[0]

    def statuses(self, requests: Sequence[Request]) -> list[int]:
        frames = [encode_request(request.code, request.payload) for request in requests]
        self.wire.put(b"".join(frames))
        return [self.wire.answer()[0] for _ in requests]

    def close(self) -> None:
        self.wire.close()


class ConsensusChannel:
    """The same in the consensus generation; classic requests are said in its words."""

    def __init__(self, broker: BrokerProcess) -> None:
        self.wire = ConsensusWire(broker, login=False)

    def login(self, username: str, password: str) -> int:
        register = Register(VERSION, "test", "1", username, password)
        status, payload = self.wire.request(*_in_consensus(register))
        if status == 0:
            answer = CODECS[LaterCode.LOGIN_REGISTER].answer
            self.wire.session = answer.decode(memoryview(payload)).session
        return status

    def statuses(self, requests: Sequence[Request]) -> list[int]:
        commands = [CLASSIC.requests[one.code](memoryview(one.payload)) for one in requests]
        # One at a time, as its clients do: many would be more than waits before a login.
        return [self._status(one) for one in commands]

    def _status(self, command: Command) -> int:
        code, payload = _in_consensus(command)
        status, _ = self.wire.request(code, payload)
        if OPERATIONS.get(code, QUERY) != QUERY:
            self.wire.number += 1
        return status

    def close(self) -> None:
        self.wire.close()


def _in_consensus(command: Command) -> tuple[int, bytes]:
    if isinstance(command, LoginUser):
        command = Register(VERSION, "test", "1", command.username, command.password)
    elif isinstance(command, LoginWithPersonalAccessToken):
        command = Register(VERSION, "test", "1", token=command.token)
    elif isinstance(command, SendMessages):
        messages = decode_batch(command.batch)
        payload = send_payload(command.stream, command.topic, command.partitioning, messages)
        return Code.SEND_MESSAGES, payload
    code = CODES[type(command)]
    return code, CODECS[code].request.encode(command)


class OldChannel:
    """The same in the generation of SDK 0.6."""

    def __init__(self, broker: BrokerProcess) -> None:
        self.wire = OlderWire(broker, "old", login=False)

    def login(self, username: str, password: str) -> int:
        return self.wire.status(LoginUser(username, password))

    def statuses(self, requests: Sequence[Request]) -> list[int]:
        return [self._status(one) for one in requests]

    def _status(self, request: Request) -> int:
        command = CLASSIC.requests[request.code](memoryview(request.payload))
        if isinstance(command, SendMessages):
            assert isinstance(command.partitioning, PartitionId)
            messages = [(one.id, b"", one.payload) for one in decode_batch(command.batch)]
            place = (command.stream, command.topic, command.partitioning.partition_id)
            return self.wire.send_all(*place, messages).status
        if request.code in UNKNOWN:
            status = self.wire.request(request.code, request.payload).status
            return NOT_IN_GENERATION if status == InvalidCommand.status else status
        self.wire.begin(command)
        return self.wire.answer().status

    def close(self) -> None:
        self.wire.close()


class WebSocketChannel(TcpChannel):
    """One WebSocket, with TLS below it where the broker has TLS."""

    def __init__(self, broker: BrokerProcess) -> None:
        below = broker.through or (lambda connected: connected)
        at = door_of(broker, "ws")
        self.wire = Wire(at, login=False, through=lambda connected: as_socket(below(connected)))


class QuicChannel(TcpChannel):
    """One QUIC connection; each request has a stream of its own."""

    def __init__(self, broker: BrokerProcess) -> None:
        opened = Quic(broker.quic_address, TIMEOUT_S, idle_timeout=IDLE_TIMEOUT_S).open()
        self.wire = Wire.over(QuicSocket(opened), login=False)


AnyChannel: TypeAlias = TcpChannel | ConsensusChannel | OldChannel


class QuicDoor:
    """Shard 0 alone has it."""

    shards: Final = (0,)
    is_encrypted: Final = False

    def channels(self, broker: BrokerProcess, per_shard: int) -> dict[int, list[Channel]]:
        return {0: [QuicChannel(broker) for _ in range(per_shard)]}


class HttpDoor:
    """Any shard answers any request; each is asked."""

    shards: Final = (0, 1)
    is_encrypted: Final = False

    def channels(self, broker: BrokerProcess, per_shard: int) -> dict[int, list[Channel]]:
        workers = broker.workers()
        kept: dict[int, HTTPConnection] = {}

        def shard_of(port: int) -> int | None:
            return _shards_of(workers, {port})[port]

        return {
            shard: [HttpChannel(broker, shard, shard_of, kept) for _ in range(per_shard)]
            for shard in workers
        }


class TcpDoor:
    """The kernel chooses the shard of a connection, so some are made in vain."""

    shards: Final = (0, 1)

    def __init__(self, generation: type[AnyChannel], *, is_encrypted: bool = False) -> None:
        self._generation = generation
        self.is_encrypted = is_encrypted

    def channels(self, broker: BrokerProcess, per_shard: int) -> dict[int, list[Channel]]:
        workers = broker.workers()
        found: dict[int, list[Channel]] = {shard: [] for shard in workers}
        for _ in range(ROUNDS_MAX):
            opened = {channel.wire.port: channel for channel in self._opened(broker, per_shard)}
            for port, shard in _shards_of(workers, set(opened)).items():
                channel = opened[port]
                if len(found[shard]) < per_shard:
                    found[shard].append(channel)
                else:
                    channel.close()
            if all(len(channels) == per_shard for channels in found.values()):
                return found
        raise AssertionError(f"{ROUNDS_MAX} rounds of connections missed a shard")

    def _opened(self, broker: BrokerProcess, count: int) -> Sequence[AnyChannel]:
        return [self._generation(broker) for _ in range(count)]


DOORS: Final[dict[str, Door]] = {
    "tcp": TcpDoor(TcpChannel),
    "tcp in the consensus generation": TcpDoor(ConsensusChannel),
    "tcp in the generation of SDK 0.6": TcpDoor(OldChannel),
    "wss": TcpDoor(WebSocketChannel, is_encrypted=True),
    "quic": QuicDoor(),
    "http": HttpDoor(),
}

LAYERS: Final[dict[str, Door]] = {
    "tls": TcpDoor(TcpChannel, is_encrypted=True),
    "ws": TcpDoor(WebSocketChannel),
}
"""The two that "wss" is made of. A matrix takes half a minute: these are run with EVERY_DOOR=1."""

if os.environ.get("EVERY_DOOR"):
    DOORS.update(LAYERS)


def _shards_of(workers: dict[int, int], ports: set[int]) -> dict[int, int]:
    """Which worker holds the other end of each of our ports."""

    def all_accepted() -> dict[int, int]:
        holders = {
            connection.raddr.port: shard
            for shard, pid in workers.items()
            for connection in psutil.Process(pid).net_connections("tcp")
            if connection.raddr and connection.raddr.port in ports
        }
        return holders if len(holders) == len(ports) else {}

    return wait_for(all_accepted)
