"""What compression costs and saves: one producer with it and without, then all of it read again.

For each codec a broker of our own runs, with one shard on the first CPU and small segments. One
connection of this process runs on another CPU. Messages look like what people keep as JSON: names
that repeat, numbers that do not. The producer does not wait for the compressor, which works on the
shard's core when that has time. `settled` is how long it went on after the last answer.
"""

import json
import os
import random
import struct
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Final, NamedTuple

from borzoi.bench.admin import Admin
from borzoi.bench.broker import CREDENTIALS, OwnBroker
from borzoi.bench.failures import BenchFailed
from borzoi.protocol.codes import Code
from borzoi.protocol.commands import (
    CreateStream,
    CreateTopic,
    PollMessages,
)
from borzoi.protocol.framing import encode_request
from borzoi.protocol.generations import encode_command
from borzoi.protocol.identifiers import (
    Consumer,
    ConsumerKind,
    PartitionId,
    PollingStrategy,
    StrategyKind,
)
from borzoi.protocol.message import MESSAGE_HEADER_SIZE, Message
from borzoi.protocol.send_messages import encode_prepared_messages, prepare_messages

CODECS: Final = ("none", "lz4", "zstd", "gzip")
SEGMENT_SIZE: Final = "32MiB"
BATCH: Final = 1000
VARIANTS: Final = 64
SETTLE_TIMEOUT_S: Final = 300.0
LAST_POSITION: Final = struct.Struct("<4xI8x")  # in an entry of an index: where a message ends
NAME: Final = "compression"


class CompressionFigures(NamedTuple):
    """One codec."""

    codec: str
    produce_mb_s: float
    settled_s: float
    ratio: float
    saved_mb: float
    poll_mb_s: float


def measure(
    codec: str,
    duration_s: float,
    directory: Path | None = None,
    *,
    segment_size: str = SEGMENT_SIZE,
    variants: int = VARIANTS,
) -> CompressionFigures:
    """Send for so long, wait for the compressor, read everything."""
    settings = {
        "IGGY_SYSTEM_COMPRESSION_DEFAULT_ALGORITHM": codec,
        "IGGY_SYSTEM_SEGMENT_SIZE": segment_size,
    }
    cpus = sorted(os.sched_getaffinity(0))
    with OwnBroker(f"{cpus[0]}..{cpus[0] + 1}", settings, directory) as broker:
        os.sched_setaffinity(0, cpus[1:] or cpus)
        try:
            with closing(Admin.connect(broker.host, broker.port, CREDENTIALS)) as admin:
                frames = list(_frames(variants))
                return _measure(admin, codec, duration_s, broker.data, frames)
        finally:
            os.sched_setaffinity(0, cpus)


def json_like(number: int) -> bytes:
    """Some 300 bytes, of which a third is new in each."""
    chance = random.Random(number)
    return json.dumps(
        {
            "event": "order_changed",
            "order_id": f"{chance.getrandbits(64):016x}",
            "customer": f"customer-{chance.randrange(50_000)}",
            "state": chance.choice(["new", "paid", "packed", "sent", "returned"]),
            "amount": chance.randrange(1, 500_000) / 100,
            "currency": chance.choice(["EUR", "USD", "GBP"]),
            "items": [
                {"sku": f"SKU-{chance.randrange(9000):05d}", "count": chance.randrange(1, 9)}
                for _ in range(3)
            ],
            "at": 1_700_000_000_000 + number * 17 + chance.randrange(17),
        }
    ).encode()


def _measure(
    admin: Admin, codec: str, duration_s: float, data: Path, frames: Sequence[tuple[bytes, int]]
) -> CompressionFigures:
    admin.ask(CreateStream(NAME))
    admin.ask(CreateTopic(NAME, 1, 1, 0, 0, 1, NAME))
    sent = batches = 0
    began = time.monotonic()
    while (now := time.monotonic()) - began < duration_s:
        frame, size = frames[batches % len(frames)]
        admin.send_raw(frame)
        sent += size
        batches += 1
    produced_s = now - began
    (partition,) = data.glob("streams/*/topics/*/partitions/*")
    settled_s = _wait_settled(partition) if codec != "none" else 0.0
    plain, stored = _sizes(partition)
    began = time.monotonic()
    polled = sum(admin.send_raw(_poll(number * BATCH)) for number in range(batches))
    return CompressionFigures(
        codec,
        sent / produced_s / 1e6,
        settled_s,
        plain / stored if stored else 1.0,
        (plain - stored) / 1e6,
        polled / (time.monotonic() - began) / 1e6,
    )


def _frames(variants: int) -> Iterator[tuple[bytes, int]]:
    for variant in range(variants):
        payloads = [json_like(variant * BATCH + number) for number in range(BATCH)]
        batch = prepare_messages(Message(payload) for payload in payloads)
        payload = encode_prepared_messages(NAME, NAME, PartitionId(0), batch)
        size = sum(map(len, payloads)) + BATCH * MESSAGE_HEADER_SIZE
        yield encode_request(Code.SEND_MESSAGES, payload), size


def _poll(offset: int) -> bytes:
    anybody = Consumer(ConsumerKind.CONSUMER, 1)
    strategy = PollingStrategy(StrategyKind.OFFSET, offset)
    poll = PollMessages(anybody, NAME, NAME, 0, strategy, BATCH, False)
    return encode_request(Code.POLL_MESSAGES, encode_command(poll))


def _wait_settled(partition: Path) -> float:
    """Until only the active segment is plain."""
    began = time.monotonic()
    while len(list(partition.glob("*.log"))) > 1:
        if time.monotonic() - began > SETTLE_TIMEOUT_S:
            raise BenchFailed("the compressor does not come to an end")
        time.sleep(0.02)
    return time.monotonic() - began


def _sizes(partition: Path) -> tuple[int, int]:
    """Bytes of the messages in compressed segments, and of the files that hold them."""
    plain = stored = 0
    for path in partition.glob("*.log.*"):
        index = partition / f"{path.name[:20]}.index"
        plain += LAST_POSITION.unpack(index.read_bytes()[-LAST_POSITION.size :])[0]
        stored += path.stat().st_size
    return plain, stored
