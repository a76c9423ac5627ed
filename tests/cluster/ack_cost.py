"""K5 and K6 with one node: what an acknowledgement costs beside a bare put, on the same store.

    python -m tests.cluster.ack_cost FOLDER

First one producer with 1 KiB, without linger; then eight with 1 MiB each, as fast as they can. The
bare puts are made by this process, with the same sizes and as many at once, before and after.
"""

import argparse
import asyncio
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from borzoi.cluster.operations import PutResult
from borzoi.cluster.stores import DirectorySlots
from tests.broker import BrokerProcess
from tests.cluster.replicated import replicated
from tests.shard_wires import connect
from tests.topics import make_topic

SENDS: Final = 1000
SMALL: Final = 1024
LARGE: Final = 1024 * 1024
PRODUCERS: Final = 8
ROUNDS: Final = 40


def percentiles(times_s: list[float]) -> str:
    ordered = sorted(times_s)
    p50, p99 = (1000 * ordered[int(len(ordered) * part)] for part in (0.5, 0.99))
    return f"p50 {p50:.2f} ms, p99 {p99:.2f} ms"


async def bare_puts(store: DirectorySlots, name: str, size: int, at_once: int, rounds: int) -> str:
    body = bytes(size)
    times: list[float] = []

    async def put(writer: int) -> None:
        for number in range(rounds):
            began = time.perf_counter()
            key = f"{name}/{writer}/{number}"
            assert await store.put_if_absent(key, body) is PutResult.OK
            times.append(time.perf_counter() - began)

    began = time.perf_counter()
    await asyncio.gather(*[put(writer) for writer in range(at_once)])
    took_s = time.perf_counter() - began
    rate = size * at_once * rounds / took_s / 1e6
    return f"{percentiles(times)}, {rate:.0f} MB/s"


def sends(broker: BrokerProcess, size: int, at_once: int, rounds: int) -> str:
    times: list[float] = []
    payload = bytes(size)

    def produce(partition: int) -> None:
        with connect(broker) as wire:
            for _ in range(rounds):
                began = time.perf_counter()
                assert wire.send("s", partition, payload) == 0
                times.append(time.perf_counter() - began)

    threads = [threading.Thread(target=produce, args=(one,)) for one in range(at_once)]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    took_s = time.perf_counter() - began
    rate = size * at_once * rounds / took_s / 1e6
    return f"{percentiles(times)}, {rate:.0f} MB/s"


def measure(folder: Path, say: Callable[[str], None]) -> None:
    bare = DirectorySlots(str(folder / "bare"))
    for name, size, at_once, rounds, linger in (
        ("1 producer, 1 KiB, no linger", SMALL, 1, SENDS, "0 ms"),
        (f"{PRODUCERS} producers, 1 MiB, linger 2 ms", LARGE, PRODUCERS, ROUNDS, "2 ms"),
    ):
        say(name)
        say(f"  bare puts  {asyncio.run(bare_puts(bare, f'{size}-a', size, at_once, rounds))}")
        settings = {**replicated(folder / "store"), "IGGY_REPLICATION_LINGER": linger}
        broker = BrokerProcess(folder / "data", settings)
        try:
            broker.start()
            with connect(broker) as wire:
                make_topic(wire, "s", "s", PRODUCERS)
            say(f"  sends      {sends(broker, size, at_once, rounds)}")
        finally:
            broker.close()
        say(f"  bare puts  {asyncio.run(bare_puts(bare, f'{size}-b', size, at_once, rounds))}")
        for used in ("data", "store"):
            shutil.rmtree(folder / used)


def main() -> None:
    parser = argparse.ArgumentParser(description="an acknowledgement beside a bare put")
    parser.add_argument("folder", type=Path)
    measure(parser.parse_args().folder, lambda line: print(line, flush=True))


if __name__ == "__main__":
    main()
