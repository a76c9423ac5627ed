"""`limits.slow_request` on a running broker: lines in the log, figures in the metrics."""

import re
from collections.abc import Iterator

import pytest

from borzoi.protocol.commands.streams import CreateStream
from borzoi.router.placement import pack_namespace, shard_of
from tests.broker import BrokerProcess, wait_for
from tests.scraped import Scraped
from tests.shard_wires import TWO_SHARDS, one_per_shard
from tests.topics import topic_of

pytestmark = pytest.mark.slow

SETTINGS = {
    **TWO_SHARDS,
    "IGGY_METRICS_ENABLED": "true",
    "IGGY_METRICS_ADDRESS": "127.0.0.1:0",
    "IGGY_TCP_SOCKET_MIGRATION": "false",
    # Every request is slow.
    "IGGY_LIMITS_SLOW_REQUEST": "1 us",
}
NAME = "slow"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    made = BrokerProcess(tmp_path_factory.mktemp("slow") / "data", SETTINGS)
    try:
        made.start()
        yield made
    finally:
        made.close()


def test_parts_of_requests_of_both_shards(broker: BrokerProcess) -> None:
    with one_per_shard(broker) as wires:
        stream_id = wires[0].ask(CreateStream(NAME)).id
        wires[0].ask(topic_of(NAME, 8))
        elsewhere = next(
            partition
            for partition in range(8)
            if shard_of(pack_namespace(stream_id, 0, partition), 2) == 1
        )
        assert wires[0].send(NAME, elsewhere, b"x") == 0

    def spent(part: str, shard: str) -> float:
        rows = Scraped.of(broker.metrics_address).rows("borzoi_slow_request_seconds")
        return sum(
            value for labels, value in rows if (labels["part"], labels["shard"]) == (part, shard)
        )

    # What shard 0 waited for, and what shard 1 did meanwhile.
    wait_for(lambda: spent("ring", "0") > 0 and spent("written", "1") > 0)
    wait_for(lambda: re.search(r"slow request: \w+ of .+ took 0\.", broker.output()))
