"""What each shard does, from the metrics that the HTTP door of a broker shows without a login.

Where there is no such door, or another server, there are no figures, which is no error.
"""

import asyncio
import re
import urllib.request
from contextlib import suppress
from typing import Final

from borzoi.client.client import BorzoiClient
from borzoi.protocol.errors import BrokerError

TIMEOUT_S: Final = 1.0
TEXT_SIZE_MAX: Final = 16 * 1024 * 1024
ROW: Final = re.compile(
    r"^borzoi_shard_(up|restarts_total|connections|cpu_seconds_total|resident_memory_bytes)"
    r'\{shard="(\d+)"[^}]*\} ([0-9.e+-]+)',
    re.MULTILINE,
)

Figures = dict[int, dict[str, float]]
"""By shard; memory is summed over its kinds."""


async def figures_of_shards(client: BorzoiClient) -> Figures:
    """The newest figures; empty where there are none."""
    with suppress(BrokerError, OSError, ValueError):
        for node in (await client.get_cluster_metadata()).nodes:
            if node.http_port:
                host = f"[{node.ip}]" if ":" in node.ip else node.ip
                url = f"http://{host}:{node.http_port}/metrics"
                return read_figures(await asyncio.to_thread(_fetch, url))
    return {}


def read_figures(text: str) -> Figures:
    """The rows about shards of a text of metrics."""
    found: Figures = {}
    for name, shard, value in ROW.findall(text):
        of_shard = found.setdefault(int(shard), {})
        of_shard[name] = of_shard.get(name, 0.0) + float(value)
    return found


def _fetch(url: str) -> str:
    with urllib.request.urlopen(url, timeout=TIMEOUT_S) as answer:
        data: bytes = answer.read(TEXT_SIZE_MAX)
    return data.decode()
