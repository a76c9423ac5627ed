"""Encryption at rest as the official client and a reader of the disk see it."""

import asyncio
import base64
import os
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest
from apache_iggy import IggyClient, PollingStrategy

from tests.broker import HTTP, BrokerProcess
from tests.conformance.official import Received, connected, new_topic, poll, send
from tests.conftest import NewBroker
from tests.integration.launching import run_to_its_end

KEY = base64.b64encode(os.urandom(32)).decode()
OTHER_KEY = base64.b64encode(os.urandom(32)).decode()
ON = {"IGGY_SYSTEM_ENCRYPTION_ENABLED": "true", "IGGY_SYSTEM_ENCRYPTION_KEY": KEY}
OFF = {"IGGY_SYSTEM_ENCRYPTION_KEY": KEY}
NEVER: dict[str, str] = {}
MARKER = b"MARKER"
FROM_START = PollingStrategy.Offset(0)


def run(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(asyncio.wait_for(work, 60))


def payloads(name: str, count: int = 300) -> list[bytes]:
    """Enough for a thread to decrypt them."""
    return [b"%s-%s-%d " % (MARKER, name.encode(), number) * 30 for number in range(count)]


def files_with(data: Path, text: bytes) -> list[str]:
    return [
        str(path.relative_to(data))
        for path in data.rglob("*")
        if path.is_file() and text in path.read_bytes()
    ]


async def send_to_both(client: IggyClient, topic: str, sent: list[bytes]) -> None:
    for partition_id in (0, 1):
        await send(client, topic, partition_id, *sent)


async def everything(client: IggyClient, topic: str, partition_id: int) -> list[bytes]:
    found = await poll(client, topic, partition_id, FROM_START, 10_000)
    assert [message.offset for message in found] == list(range(len(found)))
    return [message.payload for message in found]


def restart(broker: BrokerProcess, settings: dict[str, str], *, kill: bool = False) -> None:
    if kill:
        broker.kill()
    else:
        assert broker.stop() == 0
    broker.settings = {**HTTP, **settings}
    broker.start()


@pytest.mark.parametrize("transport", ["tcp"])
@pytest.mark.slow
def test_on_for_new_data_killed_and_started_again(new_broker: NewBroker, transport: str) -> None:
    broker = new_broker(**HTTP, **ON)
    topic = "MARKER-topic"
    first, second = payloads("first"), payloads("second")

    async def before() -> int:
        client = await connected(broker, transport)
        await new_topic(client, topic, 2)
        await send_to_both(client, topic, first)
        for strategy in (FROM_START, PollingStrategy.First(), PollingStrategy.Timestamp(0)):
            found = await poll(client, topic, 0, strategy)
            assert [message.payload for message in found] == first
        committed = await poll(client, topic, 1, PollingStrategy.Next(), 100, auto_commit=True)
        assert [message.payload for message in committed] == first[:100]
        # Checksums are those of the messages as received: the client computes none itself.
        assert len({message.checksum for message in found}) == len(first)
        return len(committed)

    async def after(count: int) -> list[Received]:
        client = await connected(broker, transport)
        await send_to_both(client, topic, second)
        for partition_id in (0, 1):
            assert await everything(client, topic, partition_id) == first + second
        found = await poll(client, topic, 1, PollingStrategy.Next(), 10_000, auto_commit=True)
        assert found[0].offset == count
        last = await poll(client, topic, 0, PollingStrategy.Last(), 1)
        assert last[0].payload == second[-1]
        return found

    count = run(before())
    restart(broker, ON, kill=True)
    run(after(count))
    assert files_with(broker.data, MARKER) == []
    assert KEY not in (broker.data / "runtime" / "current_config.toml").read_text()
    for pid in (broker.pid, *broker.workers().values()):
        assert KEY.encode() not in Path(f"/proc/{pid}/cmdline").read_bytes()
    assert KEY not in broker.output()
    assert files_with(broker.data, KEY.encode()) == []


@pytest.mark.parametrize("transport", ["tcp"])
@pytest.mark.slow
def test_switched_on_for_existing_data_and_off_again(
    new_broker: NewBroker, transport: str, tmp_path: Path
) -> None:
    key_file = tmp_path / "key"
    key_file.touch(0o600)
    key_file.write_text(f"{KEY}\n")
    on = {
        "IGGY_SYSTEM_ENCRYPTION_ENABLED": "true",
        "IGGY_SYSTEM_ENCRYPTION_KEY_FILE": str(key_file),
    }
    broker = new_broker(**HTTP)
    topic = "topic"
    expected: list[bytes] = []

    async def add(name: str, count: int = 300) -> None:
        client = await connected(broker, transport)
        if not expected:
            await new_topic(client, topic, 2)
        expected.extend(payloads(name, count))
        await send_to_both(client, topic, payloads(name, count))
        for partition_id in (0, 1):
            assert await everything(client, topic, partition_id) == expected
            # Over the border between the forms, in one poll.
            start = max(0, len(expected) - count - 1)
            found = await poll(client, topic, partition_id, PollingStrategy.Offset(start), 5)
            assert [message.payload for message in found] == expected[start : start + 5]
        details = await client.get_topic(topic, topic)
        assert details is not None
        assert details.messages_count == 2 * len(expected)

    run(add("plain"))
    restart(broker, on)
    run(add("secret-1"))
    assert files_with(broker.data, b"MARKER-secret") == []
    assert len(files_with(broker.data, b"MARKER-plain")) == 2
    restart(broker, OFF, kill=True)
    run(add("clear"))
    assert files_with(broker.data, b"MARKER-secret") == []
    assert len(files_with(broker.data, b"MARKER-clear")) == 2
    restart(broker, on, kill=True)
    run(add("secret-2"))
    assert files_with(broker.data, b"MARKER-secret") == []
    assert broker.stop() == 0
    # A broker without the key does not start, whether or not encryption is on.
    for settings, reason in (
        (NEVER, "no key is configured"),
        ({**ON, "IGGY_SYSTEM_ENCRYPTION_KEY": OTHER_KEY}, "is not the one that"),
        ({"IGGY_SYSTEM_ENCRYPTION_KEY": OTHER_KEY}, "is not the one that"),
        ({**on, "IGGY_SYSTEM_ENCRYPTION_KEY": OTHER_KEY}, "hold different keys"),
        ({**ON, "IGGY_SYSTEM_ENCRYPTION_KEY": "hunter2"}, "system.encryption.key cannot be used"),
        ({"IGGY_SYSTEM_ENCRYPTION_ENABLED": "true"}, "without a key"),
    ):
        ended = run_to_its_end(broker.data, **settings)
        assert ended.returncode == 1
        assert reason in ended.stderr
        for secret in (KEY, OTHER_KEY, "hunter2"):
            assert secret not in ended.stdout + ended.stderr
    broker.settings = {**HTTP, **OFF}
    broker.start()
    run(add("last"))
