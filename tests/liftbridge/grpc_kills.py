"""Kills under load over gRPC: `python -m tests.liftbridge.grpc_kills FOLDER ROUNDS`.

One publisher per partition keeps messages in flight over PublishAsync and notes every ack. One
subscriber per partition reads along, and subscribes again at the next offset when its stream ends.
Meanwhile each worker and the whole broker are killed in turn. Afterwards every message that was
acked lies at the offset of its ack, offsets have no gaps, and each subscriber has had each message
once and in order.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from grpclib.exceptions import GRPCError, StreamTerminatedError

from borzoi.liftbridge.schema import AckPolicy, StartPosition
from tests.broker import BrokerProcess
from tests.liftbridge.api_calls import ApiCalls
from tests.liftbridge.client import ANONYMOUS, LiftbridgeClient, publish

STREAM: Final = "load"
PARTITIONS: Final = 4
IN_FLIGHT_MAX: Final = 200
ACKS_BETWEEN: Final = 1000
"""Acks of all publishers together before the next kill, so that there is always load."""

SILENCE_MAX_S: Final = 5.0
AGAIN_S: Final = 0.05
OVER: Final = (GRPCError, StreamTerminatedError, OSError, TimeoutError, AssertionError)
"""What a call ends with when its worker dies."""


@contextmanager
def cut_off() -> Iterator[None]:
    """Work that may end with its worker."""
    try:
        yield
    except OVER:
        pass
    except AttributeError as error:
        # grpclib, of a connection that has ended between two steps of a call
        if error.name != "_transport":
            raise


class Found(NamedTuple):
    """What a run has shown."""

    kills: int
    acked: int
    stored: int
    resumed: int
    wrong: list[str]


class Publisher:
    """Publishes to one partition, and knows what was acked."""

    def __init__(self, broker: BrokerProcess, partition: int) -> None:
        self.acked: dict[int, bytes] = {}
        self.wrong: list[str] = []
        self._broker = broker
        self._partition = partition
        self._number = 0

    async def run(self) -> None:
        """Publish until cancelled, over one call after the other."""
        while True:
            with cut_off():
                async with (
                    LiftbridgeClient(self._broker) as client,
                    client.publish_async() as opened,
                ):
                    await self._publish(opened)
            await asyncio.sleep(AGAIN_S)

    async def _publish(self, opened: Any) -> None:
        in_flight = 0
        while True:
            while in_flight < IN_FLIGHT_MAX:
                self._number += 1
                value = b"%d:%d" % (self._partition, self._number)
                policy = AckPolicy.ALL if self._number % 50 == 0 else AckPolicy.LEADER
                await opened.send_message(
                    publish(
                        stream=STREAM,
                        partition=self._partition,
                        value=value,
                        correlationId=value.decode(),
                        ackPolicy=policy,
                    )
                )
                in_flight += 1
            async with asyncio.timeout(SILENCE_MAX_S):
                answer = await opened.recv_message()
            assert answer is not None
            in_flight -= 1
            self._note(answer)

    def _note(self, answer: Any) -> None:
        if answer.HasField("asyncError"):
            return  # not stored, or not known to be
        if answer.ack.offset in self.acked:
            self.wrong.append(f"offset {answer.ack.offset} of {self._partition} was acked twice")
        self.acked[answer.ack.offset] = answer.correlationId.encode()


class Subscriber:
    """Reads one partition from its beginning, and goes on where it was."""

    def __init__(self, broker: BrokerProcess, partition: int) -> None:
        self.read: list[bytes] = []
        self.resumed = -1
        self.wrong: list[str] = []
        self._broker = broker
        self._partition = partition

    async def until(self, count: int) -> None:
        """Wait until so many were read."""
        async with asyncio.timeout(60):
            while True:
                if len(self.read) >= count:
                    return
                await asyncio.sleep(0.02)

    async def run(self) -> None:
        """Read until cancelled."""
        while True:
            with cut_off():
                async with LiftbridgeClient(self._broker) as client:
                    await self._subscribed(client)
            await asyncio.sleep(AGAIN_S)

    async def _subscribed(self, client: LiftbridgeClient) -> None:
        wanted = {"startPosition": StartPosition.OFFSET, "startOffset": len(self.read)}
        async with client.subscribe(STREAM, partition=self._partition, **wanted) as opened:
            self.resumed += 1
            async for message in opened:
                if message.offset != len(self.read):
                    self.wrong.append(
                        f"{message.offset} of {self._partition} came, not {len(self.read)}"
                    )
                    return
                self.read.append(message.value)


def run_kills(folder: Path, rounds: int, say: Callable[[str], None] = lambda _line: None) -> Found:
    """Kill in turn, so many rounds, and compare at the end."""
    broker = BrokerProcess(folder / "data", ANONYMOUS)
    try:
        broker.start()
        return asyncio.run(_kills(broker, rounds, say))
    finally:
        broker.close()


async def _kills(broker: BrokerProcess, rounds: int, say: Callable[[str], None]) -> Found:
    async with ApiCalls(broker) as api:
        await api.create(STREAM, partitions=PARTITIONS)
    publishers = [Publisher(broker, number) for number in range(PARTITIONS)]
    subscribers = [Subscriber(broker, number) for number in range(PARTITIONS)]
    running = [asyncio.create_task(one.run()) for one in publishers]
    running += [asyncio.create_task(one.run()) for one in subscribers]
    kills = [
        lambda: os.kill(broker.workers()[0], signal.SIGKILL),
        lambda: os.kill(broker.workers()[1], signal.SIGKILL),
        lambda: _again(broker),
    ]
    await _more_acks(publishers, running)
    for number in range(rounds * len(kills)):
        await asyncio.to_thread(kills[number % len(kills)])
        await _more_acks(publishers, running)
        say(f"kill {number + 1}: {sum(len(one.acked) for one in publishers)} acked")
    await _ended(running[:PARTITIONS])
    found = await _compared(broker, publishers, subscribers, rounds * len(kills))
    await _ended(running[PARTITIONS:])
    return found


async def _compared(
    broker: BrokerProcess, publishers: list[Publisher], subscribers: list[Subscriber], kills: int
) -> Found:
    wrong = [line for one in publishers for line in one.wrong]
    wrong += [line for one in subscribers for line in one.wrong]
    stored = 0
    async with ApiCalls(broker) as api:
        for number, (publisher, subscriber) in enumerate(zip(publishers, subscribers, strict=True)):
            values = [one.value for one in await api.read(STREAM, number)]
            await subscriber.until(len(values))
            while len(subscriber.read) > len(values):
                # What was in flight when its publisher ended may be stored after the first look.
                values = [one.value for one in await api.read(STREAM, number)]
                await subscriber.until(len(values))
            stored += len(values)
            wrong += [
                f"the subscriber has read {read!r} at {offset} of {number}, where {value!r} is"
                for offset, (read, value) in enumerate(zip(subscriber.read, values, strict=False))
                if read != value
            ][:3]
            wrong += [
                f"{value!r} was acked at {offset} of {number}, and is not there"
                for offset, value in publisher.acked.items()
                if offset >= len(values) or values[offset] != value
            ]
    acked = sum(len(one.acked) for one in publishers)
    return Found(kills, acked, stored, sum(one.resumed for one in subscribers), wrong)


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


async def _ended(running: list[asyncio.Task[None]]) -> None:
    for one in running:
        one.cancel()
    await asyncio.gather(*running, return_exceptions=True)


def _again(broker: BrokerProcess) -> None:
    broker.kill()
    broker.start()


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    found = run_kills(folder, int(sys.argv[2]), lambda line: print(line, flush=True))
    print(found._replace(wrong=found.wrong[:20]))
    sys.exit(bool(found.wrong))


if __name__ == "__main__":
    main()
