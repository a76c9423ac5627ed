"""Connections to the door of metrics that say nothing, or never end: a scrape is answered."""

import socket
from contextlib import ExitStack, suppress
from typing import Final

import pytest

from tests.conftest import NewBroker
from tests.scraped import fetch

IDLE: Final = 300
SCRAPES: Final = 10


@pytest.mark.slow
@pytest.mark.parametrize("said", [b"", b"GET /metrics HTTP/1.1\r\nHost: "], ids=["silent", "begun"])
@pytest.mark.parametrize("shards", ["1", "2"])
def test_a_scrape_beside_idle_connections(new_broker: NewBroker, shards: str, said: bytes) -> None:
    broker = new_broker(
        IGGY_METRICS_ENABLED="true",
        IGGY_METRICS_ADDRESS="127.0.0.1:0",
        IGGY_SYSTEM_SHARDING_CPU_ALLOCATION=shards,
    )
    host, _, port = broker.metrics_address.rpartition(":")
    for _ in range(SCRAPES):
        # All of them are opened each time: a door that is left alone forgets them by and by.
        with ExitStack() as opened:
            for _ in range(IDLE):
                idle = opened.enter_context(socket.create_connection((host, int(port)), 60))
                with suppress(ConnectionError):  # it may have given way already
                    idle.sendall(said)
            assert fetch(broker.metrics_address).status == 200
