"""A worker is killed while a client sends through every door: nothing acknowledged is lost.

The client of this project connects again by itself. What it cannot know, it says: a request that
was under way when its worker died was carried out or not, and is an error of a known kind.
"""

import asyncio
import os
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from borzoi.client import BorzoiClient, RequestTimeout, new_message
from borzoi.protocol.commands.streams import CreateStream
from borzoi.protocol.errors import BrokerError
from tests.broker import QUIC, BrokerProcess, wait_for
from tests.certificates import Authority
from tests.shard_wires import TWO_SHARDS
from tests.topics import topic_of
from tests.ways import client_context, door_of, with_tls
from tests.wire import Wire

pytestmark = pytest.mark.slow

SCHEMES = {
    "plain": {"tcp": "iggy+tcp", "ws": "iggy+ws", "quic": "iggy+quic", "http": "iggy+http"},
    "encrypted": {"tls": "iggy+tls", "wss": "iggy+wss", "https": "iggy+https"},
}
TOPIC = "doors"
BETWEEN_KILLS = 30
"""So many messages of every door are acknowledged before a kill, and after it."""

DEADLINE_S = 120.0
CLEAR = (BrokerError, RequestTimeout)


class Sender:
    """Sends numbered messages through one door, one after the other, to both shards in turn."""

    def __init__(self, door: str, address: str) -> None:
        self.door = door
        self._address = address
        self.acknowledged: list[bytes] = []
        self.errors: Counter[str] = Counter()

    async def run(self) -> None:
        number = 0
        async with BorzoiClient.connect(self._address, timeout_s=30.0) as client:
            while True:
                payload = f"{self.door} {number}".encode()
                partition = number % 2
                number += 1
                try:
                    await client.send_messages(
                        TOPIC, TOPIC, [new_message(payload)], partition_id=partition
                    )
                except CLEAR as error:
                    self.errors[type(error).__name__] += 1
                else:
                    self.acknowledged.append(payload)


@pytest.fixture(params=sorted(SCHEMES))
def doors(
    request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[tuple[BrokerProcess, dict[str, str]]]:
    """A broker that may lose workers, and the address of each of its doors."""
    authority = Authority()
    trusted = tmp_path / "authority.pem"
    trusted.write_bytes(authority.pem)
    is_encrypted = request.param == "encrypted"
    tls = with_tls(authority.issue(tmp_path)) if is_encrypted else QUIC
    options = f"tls_domain=localhost&tls_ca_file={trusted}" if is_encrypted else ""
    broker = BrokerProcess(tmp_path / "data", {**TWO_SHARDS, **tls})
    broker.start()
    if is_encrypted:
        context = client_context(trusted)
        broker.through = lambda below: context.wrap_socket(below, server_hostname="localhost")
    addresses = {}
    for door, scheme in SCHEMES[request.param].items():
        host, port = door_of(broker, door)
        chosen = "tls_validate_certificate=false" if door == "quic" else options
        addresses[door] = f"{scheme}://iggy:iggy@{host}:{port}?{chosen}"
    try:
        yield broker, addresses
    finally:
        broker.close()


async def kill_under_load(broker: BrokerProcess, senders: list[Sender]) -> None:
    async def all_reach(counts: dict[str, int]) -> None:
        while any(len(one.acknowledged) < counts[one.door] for one in senders):
            if any(task.done() for task in tasks):
                return
            await asyncio.sleep(0.05)

    def further() -> dict[str, int]:
        return {one.door: len(one.acknowledged) + BETWEEN_KILLS for one in senders}

    async with asyncio.timeout(DEADLINE_S):
        tasks = [asyncio.create_task(one.run()) for one in senders]
        try:
            await all_reach(further())
            for shard in (0, 1, 0):
                pid = broker.workers()[shard]
                os.kill(pid, signal.SIGKILL)
                await asyncio.to_thread(wait_for, is_another(broker, shard, pid))
                await all_reach(further())
        finally:
            for task in tasks:
                task.cancel()
            ended = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(one, asyncio.CancelledError) for one in ended), ended


def is_another(broker: BrokerProcess, shard: int, pid: int) -> Callable[[], bool]:
    return lambda: broker.workers().get(shard, pid) != pid


def test_every_door_comes_back_and_nothing_acknowledged_is_lost(
    doors: tuple[BrokerProcess, dict[str, str]],
) -> None:
    broker, addresses = doors
    with Wire(broker) as wire:
        wire.ask(CreateStream(TOPIC))
        wire.ask(topic_of(TOPIC, 2))
    senders = [Sender(door, address) for door, address in addresses.items()]
    asyncio.run(kill_under_load(broker, senders))
    with Wire(broker) as wire:
        stored = Counter(
            message.payload
            for partition in range(2)
            for message in wire.read(TOPIC, TOPIC, partition)
        )
    for sender in senders:
        assert len(sender.acknowledged) >= 4 * BETWEEN_KILLS
        lost = [payload for payload in sender.acknowledged if payload not in stored]
        assert lost == [], (sender.door, sender.errors)
    assert max(stored.values()) == 1
