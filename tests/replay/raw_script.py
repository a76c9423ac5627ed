"""Every command code as bytes: of things that exist and that do not, cut, changed and malformed."""

import asyncio
import random
import struct
from collections.abc import Iterator
from typing import Final

from borzoi.protocol import commands
from borzoi.protocol.codes import Code
from borzoi.protocol.generations import code_of, encode_command
from borzoi.protocol.identifiers import (
    Balanced,
    Consumer,
    ConsumerKind,
    MessagesKey,
    PartitionId,
    PollingStrategy,
    StrategyKind,
)
from borzoi.protocol.message import Message
from borzoi.protocol.permissions import GlobalPermissions, Permissions, UserStatus
from borzoi.protocol.send_messages import encode_send_messages
from tests.integration.every_command import REQUESTS
from tests.replay.cutting import HEADER
from tests.replay.proxy import Proxy

SETTINGS: Final = {"IGGY_SYSTEM_SEGMENT_SIZE": "64KiB"}
SEED: Final = 20261118
MUTATIONS: Final = 12
CUTS_MAX: Final = 60
ROOT: Final = encode_command(commands.LoginUser("iggy", "iggy"))
WHO: Final = Consumer(ConsumerKind.CONSUMER, 1)
FIRST: Final = PollingStrategy(StrategyKind.FIRST)
MESSAGES: Final = [Message(b"first", id=1), Message(b"second", origin_timestamp=5)]

LIVE: Final[dict[int, bytes]] = {
    code_of(command): encode_command(command)
    for command in (
        commands.Ping(),
        commands.GetUser("iggy"),
        commands.GetUsers(),
        commands.GetPersonalAccessTokens(),
        commands.UpdateUser("worker", None, None),
        commands.UpdatePermissions("worker", Permissions(GlobalPermissions(poll_messages=True))),
        commands.PollMessages(WHO, "s", "t", 0, FIRST, 10, True),
        commands.FlushUnsavedBuffer("s", "t", 0, True),
        commands.GetConsumerOffset(WHO, "s", "t", 0),
        commands.StoreConsumerOffset(WHO, "s", "t", 0, 1),
        commands.DeleteConsumerOffset(WHO, "s", "t", 0),
        commands.GetStream("s"),
        commands.GetStreams(),
        commands.UpdateStream("s", "s"),
        commands.GetTopic("s", "t"),
        commands.GetTopics("s"),
        commands.UpdateTopic("s", "t", 1, 0, 0, 1, "t"),
        commands.DeleteSegments("s", "t", 0, 0),
        commands.GetConsumerGroup("s", "t", "g"),
        commands.GetConsumerGroups("s", "t"),
        commands.JoinConsumerGroup("s", "t", "g"),
        commands.LeaveConsumerGroup("s", "t", "g"),
    )
}
SEND: Final = encode_send_messages("s", "t", PartitionId(0), MESSAGES)
NOT_REPEATED: Final = {Code.GET_SNAPSHOT, Code.LOGOUT_USER, Code.LOGIN_USER}


async def run(proxy: Proxy) -> None:
    await _logged_out(proxy)
    client = await Raw.open(proxy)
    await client.ask(Code.LOGIN_USER, ROOT)
    for code, payload in REQUESTS.items():
        await client.ask(code, payload)
    await client.ask(Code.LOGIN_USER, ROOT)
    await _prepare(client)
    await _cuts(client)
    await _sends(client)
    await _polls(client)
    await _mutations(client)
    await _unknown(client)
    await _pieces(client)
    await _little_rights(proxy, client)
    await client.close()
    await proxy.wait_all_closed()
    await _broken_streams(proxy)


async def _logged_out(proxy: Proxy) -> None:
    client = await Raw.open(proxy)
    for code, payload in REQUESTS.items():
        if code != Code.LOGIN_USER:
            await client.ask(code, payload)
    await client.close()
    await proxy.wait_all_closed()


async def _prepare(client: "Raw") -> None:
    for command in (
        commands.CreateStream("s"),
        commands.CreateTopic("s", 2, 1, 0, 0, 1, "t"),
        commands.CreateConsumerGroup("s", "t", "g"),
        commands.CreateUser("worker", "password", UserStatus.ACTIVE, None),
    ):
        await client.ask(code_of(command), encode_command(command))


async def _cuts(client: "Raw") -> None:
    """Each request, shorter by every number of bytes, and longer by one."""
    for code, payload in _requests().items():
        if code in NOT_REPEATED:
            continue
        for size in range(min(len(payload), CUTS_MAX)):
            await client.ask(code, payload[:size])
        await client.ask(code, payload + b"\1")
    for size in range(len(SEND)):
        await client.ask(Code.SEND_MESSAGES, SEND[:size])
    await client.ask(Code.SEND_MESSAGES, SEND + b"\1")


async def _sends(client: "Raw") -> None:
    """All partitionings, then a good batch with each of its bytes changed in turn."""
    for partitioning in (
        PartitionId(0),
        PartitionId(1),
        PartitionId(2),
        Balanced(),
        MessagesKey(b"k"),
    ):
        for messages in (MESSAGES, [Message(b"")], [Message(bytes(1000))] * 20, []):
            payload = encode_send_messages("s", "t", partitioning, messages)
            await client.ask(Code.SEND_MESSAGES, payload)
    for at in range(len(SEND)):
        changed = bytearray(SEND)
        changed[at] ^= 1 if at % 2 else 0x80
        await client.ask(Code.SEND_MESSAGES, bytes(changed))
    await client.ask(Code.GET_TOPIC, LIVE[Code.GET_TOPIC])


async def _polls(client: "Raw") -> None:
    for kind in range(7):
        for value in (0, 1, 50, 1 << 62):
            for count in (0, 1, 30):
                for commits in (0, 1):
                    tail = struct.pack("<BQIB", kind, value, count, commits)
                    await client.ask(Code.POLL_MESSAGES, LIVE[Code.POLL_MESSAGES][:-14] + tail)


async def _mutations(client: "Raw") -> None:
    chance = random.Random(SEED)
    for code, payload in LIVE.items():
        for changed in _changed(chance, payload):
            await client.ask(code, changed)
        # A change may have given a new name.
        await client.ask(*_request(commands.UpdateStream(0, "s")))
        await client.ask(*_request(commands.UpdateTopic(0, 0, 1, 0, 0, 1, "t")))
        await client.ask(Code.GET_STREAM, LIVE[Code.GET_STREAM])


def _changed(chance: random.Random, payload: bytes) -> Iterator[bytes]:
    for _ in range(MUTATIONS if payload else 0):
        changed = bytearray(payload)
        changed[chance.randrange(len(payload))] = chance.choice((0, 1, 2, 3, 4, 127, 128, 255))
        yield bytes(changed)


async def _unknown(client: "Raw") -> None:
    for code in (0, 2, 13, 23, 30, 99, 103, 206, 999, 1 << 31, (1 << 32) - 1):
        await client.ask(code, b"")
        await client.ask(code, b"something")


async def _pieces(client: "Raw") -> None:
    """One request in many pieces, many requests in one piece, and lengths that are too short."""
    poll = frame(Code.POLL_MESSAGES, LIVE[Code.POLL_MESSAGES])
    for at in range(len(poll)):
        client.write(poll[at : at + 1])
        await asyncio.sleep(0.001)
    await client.answer()
    client.write(poll * 3 + frame(Code.PING) * 20 + frame(Code.SEND_MESSAGES, SEND) * 3)
    for _ in range(26):
        await client.answer()
    for length in (0, 1, 2, 3):
        client.write(HEADER.pack(length, Code.PING))
        await client.answer()
        await client.ask(Code.PING, b"")


async def _little_rights(proxy: Proxy, client: "Raw") -> None:
    await client.ask(*_request(commands.UpdatePermissions("worker", None)))
    worker = await Raw.open(proxy)
    await worker.ask(*_request(commands.LoginUser("worker", "password")))
    for code, payload in {**_requests(), Code.SEND_MESSAGES: SEND}.items():
        if code not in NOT_REPEATED:
            await worker.ask(code, payload)
    await worker.close()
    await proxy.wait_all_closed(but=1)


async def _broken_streams(proxy: Proxy) -> None:
    """Lengths that no frame may have, and clients that leave in the middle of a frame."""
    for length, code in (
        ((1 << 32) - 1, Code.PING),
        ((1 << 32) - 1, Code.SEND_MESSAGES),
        (11 << 20, Code.GET_STREAM),
        (200 << 20, Code.SEND_MESSAGES),
    ):
        for login in (False, True):
            client = await Raw.open(proxy)
            if login:
                await client.ask(Code.LOGIN_USER, ROOT)
            client.write(HEADER.pack(length, code))
            await client.answer()
            await asyncio.sleep(0.05)
            await client.close()
            await proxy.wait_all_closed()
    for part in (b"", b"\4", frame(Code.PING)[:7], frame(Code.SEND_MESSAGES, SEND)[:50]):
        client = await Raw.open(proxy)
        client.write(part)
        await asyncio.sleep(0.05)
        await client.close()
        await proxy.wait_all_closed()


def _requests() -> dict[int, bytes]:
    """A request of every code, about something that exists where that does no harm."""
    return {int(code): payload for code, payload in REQUESTS.items()} | LIVE


def _request(command: commands.Command) -> tuple[int, bytes]:
    return code_of(command), encode_command(command)


def frame(code: int, payload: bytes = b"") -> bytes:
    return HEADER.pack(4 + len(payload), code) + payload


class Raw:
    """A connection whose bytes are given one by one."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(cls, proxy: Proxy) -> "Raw":
        return cls(*await asyncio.open_connection("127.0.0.1", proxy.port))

    def write(self, data: bytes) -> None:
        self._writer.write(data)

    async def answer(self) -> bytes:
        async with asyncio.timeout(60):
            _status, length = HEADER.unpack(await self._reader.readexactly(HEADER.size))
            return await self._reader.readexactly(length)

    async def ask(self, code: int, payload: bytes) -> None:
        self.write(frame(code, payload))
        await self.answer()

    async def close(self) -> None:
        self._writer.close()
        await self._writer.wait_closed()
