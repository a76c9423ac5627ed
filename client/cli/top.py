"""`borzoi top`: what the broker is doing, every second, or once.

From what any user with `read_servers` and `read_streams` may ask: the server's numbers, the topics
with what came in since the last look, the clients, and the lag of groups. Shards are shown where
the HTTP door has metrics. Always: one look asks for at most LOOKED_AT_MAX topics and group
partitions, and says what it has left out.
"""

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import click

from borzoi.client.cli.running import HELP, uses_client
from borzoi.client.cli.shard_figures import Figures, figures_of_shards
from borzoi.client.cli.showing import duration_text, size_text, table
from borzoi.client.client import BorzoiClient
from borzoi.protocol.identifiers import Consumer, ConsumerKind
from borzoi.protocol.responses import Stats, TopicInfo
from borzoi.terminal import clear, say

LOOKED_AT_MAX: Final = 200
ROWS: Final = 20


@dataclass
class Look:
    """What one look has found. Rates are since the look before; none in the first."""

    server: Mapping[str, Any]
    shards: list[dict[str, Any]] = field(default_factory=list)
    topics: list[dict[str, Any]] = field(default_factory=list)
    groups: list[dict[str, Any]] = field(default_factory=list)
    clients: list[dict[str, Any]] = field(default_factory=list)
    left_out: int = 0


class Before:
    """Counts of the last look, by topic."""

    def __init__(self) -> None:
        self._at = 0.0
        self._messages: dict[str, int] = {}
        self._cpu_at = 0.0
        self._cpu: dict[int, float] = {}

    def cpu_shares(self, figures: Figures) -> dict[int, float]:
        """Percent of one core that each shard has used since then."""
        now = time.monotonic()
        past_s = now - self._cpu_at
        before, self._cpu_at = self._cpu, now
        self._cpu = {shard: one.get("cpu_seconds_total", 0.0) for shard, one in figures.items()}
        return {
            shard: 100 * max(0.0, cpu_s - before[shard]) / past_s
            for shard, cpu_s in self._cpu.items()
            if shard in before and past_s > 0
        }

    def rates(self, counts: Mapping[str, int]) -> dict[str, float]:
        """Messages a second of each topic since then."""
        now = time.monotonic()
        past_s = now - self._at
        before, self._messages, self._at = self._messages, dict(counts), now
        return {
            name: max(0, count - before[name]) / past_s
            for name, count in counts.items()
            if name in before and past_s > 0
        }


@click.command(context_settings=HELP)
@click.option("--once", is_flag=True, help="Two looks, for rates, and end; as --json does.")
@click.option(
    "--interval",
    type=click.FloatRange(min=0.1),
    default=1.0,
    show_default=True,
    help="Seconds between two looks.",
)
@uses_client
async def top(client: BorzoiClient, once: bool, interval: float) -> object:
    """Show the server, topics, groups with their lag, and clients, until interrupted."""
    before = Before()
    look = await _look(client, before)
    as_json = click.get_current_context().params["as_json"]
    while not (once or as_json):
        clear()
        _write(look)
        await asyncio.sleep(interval)
        look = await _look(client, before)
    await asyncio.sleep(interval)
    look = await _look(client, before)
    if as_json:
        return look
    _write(look)
    return None


async def _look(client: BorzoiClient, before: Before) -> Look:
    look = Look(_server(await client.get_stats()))
    figures = await figures_of_shards(client)
    shares = before.cpu_shares(figures)
    look.shards = [
        {
            "shard": shard,
            "up": bool(one.get("up")),
            "cpu_usage": shares.get(shard),
            "memory_usage": int(one.get("resident_memory_bytes", 0)),
            "connections": int(one.get("connections", 0)),
            "restarts": int(one.get("restarts_total", 0)),
        }
        for shard, one in sorted(figures.items())
    ]
    found: list[tuple[str, TopicInfo]] = []
    for stream in await client.get_streams():
        if len(found) < LOOKED_AT_MAX:
            found += [(stream.name, topic) for topic in await client.get_topics(stream.id)]
    look.left_out = max(0, len(found) - LOOKED_AT_MAX)
    found = found[:LOOKED_AT_MAX]
    rates = before.rates({f"{name}/{one.name}": one.messages_count for name, one in found})
    for stream_name, topic in found:
        name = f"{stream_name}/{topic.name}"
        look.topics.append(
            {
                "topic": name,
                "partitions": topic.partitions_count,
                "messages": topic.messages_count,
                "size_bytes": topic.size_bytes,
                "messages_a_second": rates.get(name),
            }
        )
        if len(look.groups) < LOOKED_AT_MAX:
            look.groups += await _groups(client, stream_name, topic.name)
    look.topics.sort(key=lambda row: (-(row["messages_a_second"] or 0), -row["messages"]))
    look.clients = [
        {"client": one.client_id, "user": one.user_id, "address": one.address,
         "transport": one.transport.name.lower(), "groups": one.consumer_groups_count}
        for one in await client.get_clients()
    ]  # fmt: skip
    return look


async def _groups(client: BorzoiClient, stream: str, topic: str) -> list[dict[str, Any]]:
    """The groups of a topic, and how far they are behind its end."""
    rows = []
    groups = await client.get_consumer_groups(stream, topic)
    details = await client.get_topic(stream, topic) if groups else None
    for group in groups:
        lag = 0
        for one in details.partitions if details is not None else ():
            if not one.messages_count:
                continue
            who = Consumer(ConsumerKind.GROUP, group.id)
            stored = await client.get_consumer_offset(stream, topic, one.id, consumer=who)
            # Without an offset everything that is kept is ahead.
            behind = one.messages_count
            if stored is not None:
                behind = min(behind, one.current_offset - stored.stored_offset)
            lag += behind
        rows.append(
            {"group": group.name, "topic": f"{stream}/{topic}", "members": group.members_count,
             "lag": lag}
        )  # fmt: skip
    return rows


def _server(stats: Stats) -> dict[str, Any]:
    return {
        "hostname": stats.hostname,
        "version": stats.server_version,
        "run_time": stats.run_time,
        "cpu_usage": stats.cpu_usage,
        "memory_usage": stats.memory_usage,
        "free_disk_space": stats.free_disk_space,
        "streams": stats.streams_count,
        "topics": stats.topics_count,
        "partitions": stats.partitions_count,
        "messages": stats.messages_count,
        "clients": stats.clients_count,
    }


def _write(look: Look) -> None:
    server = look.server
    say(
        f"{server['hostname']}  up {duration_text(server['run_time'])}  CPU"
        f" {server['cpu_usage']:.1f} %  memory {size_text(server['memory_usage'])}  disk free"
        f" {size_text(server['free_disk_space'])}"
    )
    parts = (
        ("Shards", look.shards),
        ("Topics", look.topics),
        ("Groups", look.groups),
        ("Clients", look.clients),
    )
    for title, rows in parts:
        say("")
        more = f", the first {ROWS}" if len(rows) > ROWS else ""
        say(f"{title} ({len(rows)}{more})")
        for line in table(rows[:ROWS]):
            say(f"  {line}")
    if look.left_out:
        say(f"{look.left_out} topics are not shown")
