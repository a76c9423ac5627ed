"""How fast Liftbridge is: PublishAsync with acks and Subscribe, beside a bare grpclib echo.

    python -m tests.liftbridge.speed [--messages 200000] [--size 1024] [--in-flight 2000]

One shard on CPU 0, this client on CPU 1. The echo is a server of grpclib alone, on CPU 0 as well,
that answers every PublishRequest with an empty PublishResponse, or sends one Message again and
again. Client and frames are the same for both. The client sends messages that are framed before,
and counts answers by their heads, so that it is not what is measured.
"""

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

import psutil
from grpclib.client import Channel, StreamStreamMethod, UnaryStreamMethod
from grpclib.config import Configuration
from grpclib.const import Cardinality, Handler
from grpclib.server import Server, Stream
from h2.exceptions import StreamClosedError

from borzoi.liftbridge.calls import Call, framed
from borzoi.liftbridge.schema import CLASSES, SERVICE
from tests.broker import BrokerProcess
from tests.liftbridge.client import ANONYMOUS, LiftbridgeClient

CHUNK_SIZE: Final = 64 * 1024
WINDOW: Final = Configuration(
    http2_connection_window_size=16 * 1024 * 1024, http2_stream_window_size=16 * 1024 * 1024
)


class Figure(NamedTuple):
    """One run."""

    per_second: float
    server_us: float

    def __str__(self) -> str:
        return f"{self.per_second:>9,.0f} messages/s, {self.server_us:6.1f} us of server CPU each"


class Echo:
    """A service that does nothing with messages, as grpclib's own examples are written."""

    def __mapping__(self) -> dict[str, Handler]:
        """The two methods that are measured."""
        ask, give, message = (
            CLASSES[one] for one in ("PublishRequest", "PublishResponse", "Message")
        )
        subscribe = CLASSES["SubscribeRequest"]
        return {
            f"/{SERVICE}/PublishAsync": Handler(
                self._publish_async, Cardinality.STREAM_STREAM, ask, give
            ),
            f"/{SERVICE}/Subscribe": Handler(
                self._subscribe, Cardinality.UNARY_STREAM, subscribe, message
            ),
        }

    async def _publish_async(self, stream: Stream[Any, Any]) -> None:
        answer = CLASSES["PublishResponse"](correlationId="12345678")
        async for _ in stream:
            await stream.send_message(answer)

    async def _subscribe(self, stream: Stream[Any, Any]) -> None:
        request = await stream.recv_message()
        assert request is not None
        message = CLASSES["Message"](
            value=bytes(request.startOffset), stream="s", subject="s", timestamp=1 << 60
        )
        for _ in range(request.stopOffset):
            await stream.send_message(message)


async def serve_echo() -> None:
    """The echo, until its standard input ends."""
    server = Server([Echo()], config=WINDOW)
    await server.start("127.0.0.1", 0)
    assert server._server is not None
    print(server._server.sockets[0].getsockname()[1], flush=True)  # type: ignore[attr-defined]
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    server.close()


class Taking(Call):
    """The client's side of a call, by the same means as the server's."""

    def __init__(self, opened: Any) -> None:
        # Of both sides of a call the same is used.
        super().__init__(opened)

    async def count(self, wanted: int, noted: Callable[[int], None]) -> None:
        """Receive so many messages."""
        found = 0
        while found < wanted:
            taken = await self.take()
            assert taken is not None, f"the server ended after {found} of {wanted} messages"
            found += len(taken[1])
            noted(found)


async def publish_all(port: int, messages: int, size: int, in_flight: int) -> float:
    """Publish and get all answers; seconds."""
    requests = [
        framed(
            CLASSES["PublishRequest"](
                stream="speed", value=bytes(size), correlationId=f"{number:08}"
            ).SerializeToString()
        )
        for number in range(in_flight)
    ]
    channel = Channel("127.0.0.1", port, config=WINDOW)
    method = StreamStreamMethod[Any, Any](
        channel, f"/{SERVICE}/PublishAsync", CLASSES["PublishRequest"], CLASSES["PublishResponse"]
    )
    answered = 0
    progress = asyncio.Event()

    def noted(found: int) -> None:
        nonlocal answered
        answered = found
        progress.set()

    async with method.open() as opened:
        await opened.send_request()
        began = time.monotonic()
        taking = Taking(opened)
        receiving = asyncio.create_task(taking.count(messages, noted))
        at_once = max(1, CHUNK_SIZE // len(requests[0]))
        sent = 0
        while sent < messages:
            while sent - answered > in_flight - at_once:
                progress.clear()
                await progress.wait()
            some = min(at_once, messages - sent)
            start = sent % (in_flight - at_once or 1)
            await opened._stream.send_data(b"".join(requests[start : start + some]))
            sent += some
        await receiving
        took = time.monotonic() - began
        await opened.cancel()
    channel.close()
    return took


async def subscribe_all(port: int, messages: int, size: int) -> float:
    """Receive all messages; seconds."""
    channel = Channel("127.0.0.1", port, config=WINDOW)
    method = UnaryStreamMethod[Any, Any](
        channel, f"/{SERVICE}/Subscribe", CLASSES["SubscribeRequest"], CLASSES["Message"]
    )
    async with method.open() as opened:
        # The echo takes the size and the number from these; the broker begins at the first message.
        request = CLASSES["SubscribeRequest"](
            stream="speed", startPosition=2, startOffset=size, stopOffset=messages
        )
        await opened.send_message(request, end=True)
        began = time.monotonic()
        await Taking(opened).count(messages, lambda _found: None)
        took = time.monotonic() - began
        with suppress(StreamClosedError):  # the echo ends by itself
            await opened.cancel()
    channel.close()
    return took


def cpu_s(pid: int) -> float:
    """What a process has used."""
    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system)


def measured(pid: int, messages: int, work: Any) -> Figure:
    """A run, with the CPU time of its server."""
    before = cpu_s(pid)
    took = asyncio.run(work)
    return Figure(messages / took, (cpu_s(pid) - before) / messages * 1e6)


async def create(broker: BrokerProcess) -> None:
    """The stream that is measured."""
    async with LiftbridgeClient(broker) as client:
        await client.call("CreateStream", name="speed", subject="speed")


def figures(messages: int, size: int, in_flight: int, folder: Path) -> dict[str, Figure]:
    """Both methods, of the broker and of the echo."""
    os.sched_setaffinity(0, {0})
    settings = ANONYMOUS | {"IGGY_SYSTEM_SHARDING_CPU_ALLOCATION": "1"}
    broker = BrokerProcess(folder / "data", settings)
    broker.start()
    echo = subprocess.Popen(
        [sys.executable, "-m", "tests.liftbridge.speed", "--serve-echo"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    os.sched_setaffinity(0, {1} if (os.cpu_count() or 1) > 1 else {0})
    assert echo.stdout is not None
    echo_port = int(echo.stdout.readline())
    try:
        asyncio.run(create(broker))
        port = int(broker.liftbridge_address.rpartition(":")[2])
        (worker,) = broker.workers().values()
        few = max(1000, messages // 10)
        return {
            "PublishAsync, echo": measured(
                echo.pid, few, publish_all(echo_port, few, size, in_flight)
            ),
            "PublishAsync, borzoi": measured(
                worker, messages, publish_all(port, messages, size, in_flight)
            ),
            "Subscribe, echo": measured(echo.pid, few, subscribe_all(echo_port, few, size)),
            "Subscribe, borzoi": measured(worker, messages, subscribe_all(port, messages, size)),
        }
    finally:
        echo.communicate()
        broker.close()


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--messages", type=int, default=200_000)
    options.add_argument("--size", type=int, default=1024)
    options.add_argument("--in-flight", type=int, default=2000)
    options.add_argument("--serve-echo", action="store_true")
    given = options.parse_args()
    if given.serve_echo:
        asyncio.run(serve_echo())
        return
    with tempfile.TemporaryDirectory() as folder:
        found = figures(given.messages, given.size, given.in_flight, Path(folder))
    for name, figure in found.items():
        print(f"{name:<22}{figure}")
    for method in ("PublishAsync", "Subscribe"):
        ratio = found[f"{method}, borzoi"].per_second / found[f"{method}, echo"].per_second
        print(f"{method}: {ratio:.1f} times the echo")


if __name__ == "__main__":
    main()
