"""What the HTTP door tells of the broker itself: health, metrics, snapshots."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Final

from borzoi.protocol.codes import Code
from borzoi.protocol.openmetrics import CONTENT_TYPE
from borzoi.shards.web_connections.exchange import Exchange, Outcome, Raw
from borzoi.shards.web_forms.failures import PLAIN, plain
from borzoi.shards.web_routes.commands import command, get_snapshot

LOG: Final = logging.getLogger(__name__)

ZIP: Final = "application/zip"


def say(text: str) -> Callable[[Exchange], Outcome]:
    """The function of a route that always answers the same."""
    answer = Raw(text.encode(), PLAIN)
    return lambda _exchange: answer


def readiness(closing: asyncio.Event) -> Callable[[Exchange], Outcome]:
    """200 as long as this shard takes requests: a shard listens only once it can serve."""

    def call(_exchange: Exchange) -> Outcome:
        if closing.is_set():
            raise plain(503, "stopping")
        return Raw(b"ready", PLAIN)

    return call


def metrics(text: Callable[[], Awaitable[bytes]]) -> Callable[[Exchange], Awaitable[Outcome]]:
    """The figures of all shards."""

    async def call(_exchange: Exchange) -> Outcome:
        try:
            return Raw(await text(), CONTENT_TYPE)
        except TimeoutError:
            LOG.warning("metrics could not be gathered in time")
            raise plain(503, "the figures could not be gathered in time") from None

    return call


async def snapshot(exchange: Exchange) -> Outcome:
    """An archive that describes the broker and its machine."""
    archive: bytes = await command(Code.GET_SNAPSHOT, get_snapshot, bytes)(exchange)
    name = time.strftime("iggy_snapshot_%Y%m%d_%H%M%S.zip", time.gmtime())
    return Raw(archive, ZIP, {"Content-Disposition": f'attachment; filename="{name}"'})
