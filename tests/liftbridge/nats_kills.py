"""Kills under NATS load: `python -m tests.liftbridge.nats_kills FOLDER ROUNDS`.

Publishers send envelopes and note every ack. Meanwhile workers, the whole broker and the NATS
server are killed in turn. Afterwards every message that was acked lies at the offset of its ack,
with its bytes, and the offsets of each partition have no gaps.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

import nats
from nats.aio.client import Client
from nats.aio.msg import Msg

from borzoi.liftbridge.envelope import PUBLISH, Envelope, decode_envelope, encode_envelope
from borzoi.liftbridge.schema import Ack, AckError, Message
from tests.broker import BrokerProcess
from tests.liftbridge.api_calls import ApiCalls
from tests.liftbridge.client import ANONYMOUS
from tests.liftbridge.nats_server import NatsServer

STREAM: Final = "load"
PARTITIONS: Final = 4
WINDOW: Final = 64
"""Messages of a publisher that are on their way at the same time."""

PATIENCE_S: Final = 0.3
"""So long a publisher waits for acks; what has none then is not known to be stored."""

ACKS_BETWEEN: Final = 400
"""Acks of all publishers together before the next kill, so that there is always load."""


class Found(NamedTuple):
    """What a run has shown."""

    kills: int
    acked: int
    stored: int
    wrong: list[str]


class Publisher:
    """Sends to one partition, and knows what was acked."""

    def __init__(self, client: Client, partition: int) -> None:
        self.acked: dict[int, bytes] = {}
        self._client = client
        self._subject = STREAM if partition == 0 else f"{STREAM}.{partition}"
        self._partition = partition
        self._inbox = client.new_inbox()
        self._sent: dict[str, bytes] = {}
        self._number = 0
        self._all_came = asyncio.Event()
        self.wrong: list[str] = []

    async def run(self) -> None:
        """Send until cancelled."""
        await self._client.subscribe(self._inbox, cb=self._take)
        while True:
            self._sent.clear()
            self._all_came.clear()
            # Away from a server nats-py keeps a bounded number of bytes, and then refuses.
            with suppress(nats.errors.Error):
                await self._send()
            with suppress(TimeoutError):
                async with asyncio.timeout(PATIENCE_S):
                    await self._all_came.wait()

    async def _send(self) -> None:
        for _ in range(WINDOW):
            self._number += 1
            value = b"%d:%d" % (self._partition, self._number)
            identity = str(self._number)
            self._sent[identity] = value
            message = Message(value=value, ackInbox=self._inbox, correlationId=identity)
            data = encode_envelope(PUBLISH, message.SerializeToString(), checked=True)
            await self._client.publish(self._subject, data)

    async def _take(self, message: Msg) -> None:
        envelope = decode_envelope(message.data)
        assert isinstance(envelope, Envelope)
        ack = Ack.FromString(bytes(envelope.payload))
        value = b"%d:%s" % (self._partition, ack.correlationId.encode())
        if ack.ackError != AckError.OK:
            self.wrong.append(f"{value!r} has error {ack.ackError}")
        elif ack.offset in self.acked:
            self.wrong.append(f"offset {ack.offset} of {self._partition} was acked twice")
        else:
            self.acked[ack.offset] = value
        self._sent.pop(ack.correlationId, None)
        if not self._sent:
            self._all_came.set()


def run_kills(folder: Path, rounds: int, say: Callable[[str], None] = lambda _line: None) -> Found:
    """Kill in turn, so many rounds, and compare at the end."""
    (folder / "nats").mkdir()
    server = NatsServer(folder / "nats")
    server.start()
    broker = BrokerProcess(folder / "data", settings(server))
    try:
        broker.start()
        return asyncio.run(_kills(broker, server, rounds, say))
    finally:
        broker.close()
        server.close()


def settings(server: NatsServer) -> dict[str, str]:
    return {
        **ANONYMOUS,
        "IGGY_LIFTBRIDGE_NATS_SERVERS": f'["{server.url}"]',
        "IGGY_LIFTBRIDGE_NATS_RECONNECT_INTERVAL": "50 ms",
    }


async def _kills(
    broker: BrokerProcess, server: NatsServer, rounds: int, say: Callable[[str], None]
) -> Found:
    async with ApiCalls(broker) as api:
        await api.call("CreateStream", name=STREAM, subject=STREAM, partitions=PARTITIONS)
    client = await nats.connect(
        server.url,
        max_reconnect_attempts=-1,
        reconnect_time_wait=0.05,
        error_cb=_ignored,
    )
    publishers = [Publisher(client, number) for number in range(PARTITIONS)]
    running = [asyncio.create_task(one.run()) for one in publishers]
    kills = [
        lambda: os.kill(broker.workers()[0], signal.SIGKILL),
        lambda: _again(server.kill, server.start),
        lambda: os.kill(broker.workers()[1], signal.SIGKILL),
        lambda: _again(broker.kill, broker.start),
    ]
    await _more_acks(publishers, running)
    for number in range(rounds * len(kills)):
        await asyncio.to_thread(kills[number % len(kills)])
        await _more_acks(publishers, running)
        say(f"kill {number + 1}: {sum(len(one.acked) for one in publishers)} acked")
    for one in running:
        one.cancel()
    await asyncio.gather(*running, return_exceptions=True)
    await client.close()
    return await _compared(broker, publishers, rounds * len(kills))


async def _compared(broker: BrokerProcess, publishers: list[Publisher], kills: int) -> Found:
    wrong = [line for one in publishers for line in one.wrong]
    stored = 0
    async with ApiCalls(broker) as api:
        for number, publisher in enumerate(publishers):
            messages: list[Any] = await api.read(STREAM, number)
            stored += len(messages)
            if messages[0].offset != 0:
                wrong.append(f"partition {number} begins at {messages[0].offset}")
            values = {one.offset: one.value for one in messages}
            wrong += [
                f"{value!r} was acked at {offset} of {number}, where {values.get(offset)!r} is"
                for offset, value in publisher.acked.items()
                if values.get(offset) != value
            ]
    return Found(kills, sum(len(one.acked) for one in publishers), stored, wrong)


async def _more_acks(publishers: list[Publisher], running: list[asyncio.Task[None]]) -> None:
    """Every partition is served again, and there is load."""
    before = [len(one.acked) for one in publishers]
    async with asyncio.timeout(60):
        while not all(
            len(one.acked) >= had + ACKS_BETWEEN // PARTITIONS
            for one, had in zip(publishers, before, strict=True)
        ):
            for task in running:
                if task.done():
                    task.result()
            await asyncio.sleep(0.02)


def _again(end: Callable[[], None], begin: Callable[[], None]) -> None:
    end()
    begin()


async def _ignored(_error: Exception) -> None:
    """Servers are killed, which clients notice."""


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    found = run_kills(folder, int(sys.argv[2]), lambda line: print(line, flush=True))
    print(found._replace(wrong=found.wrong[:20]))
    sys.exit(bool(found.wrong))


if __name__ == "__main__":
    main()
