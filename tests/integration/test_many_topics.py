"""Metadata does not get slower as it grows."""

import pytest

from borzoi.protocol.commands.streams import CreateStream
from borzoi.protocol.commands.system import GetStats
from borzoi.protocol.commands.topics import GetTopics
from tests.conftest import NewBroker
from tests.cpu_time import scheduled
from tests.topics import topic_of
from tests.wire import Wire

TOPICS = 3000
PART = 30
SAMPLE = 10
RATIO_MAX = 2.0


@pytest.mark.slow
def test_the_last_topics_are_created_as_fast_as_the_first(new_broker: NewBroker) -> None:
    # Without waiting for the disk, whose moods would hide what is asked here, or for its pace.
    broker = new_broker(
        IGGY_SYSTEM_STATE_ENFORCE_FSYNC="false", IGGY_LIMITS_CHANGES_BURST=str(2 * TOPICS)
    )
    wire = Wire(broker)
    wire.ask(CreateStream("s"))
    # What the broker computes, not what the clock says: other tests share the cores. The cheapest
    # part of a sample is the one that they disturbed least.
    pids = [broker.pid, *broker.workers().values()]
    costs = []
    for part in range(0, TOPICS, PART):
        before = scheduled(pids).ran_s
        for number in range(part, part + PART):
            wire.ask(topic_of(f"topic {number}", 2, stream="s"))
        costs.append((scheduled(pids).ran_s - before) / PART)
    first, last = min(costs[:SAMPLE]), min(costs[-SAMPLE:])
    assert last < first * RATIO_MAX, f"{first * 1e6:.0f} us became {last * 1e6:.0f} us"
    assert [topic.id for topic in wire.ask(GetTopics("s"))] == list(range(TOPICS))
    assert wire.ask(GetStats()).partitions_count == 2 * TOPICS
    wire.close()

    assert broker.stop() == 0
    broker.start()
    wire = Wire(broker)
    assert [topic.name for topic in wire.ask(GetTopics("s"))] == [
        f"topic {number}" for number in range(TOPICS)
    ]
    assert wire.send(f"topic {TOPICS - 1}", 1, b"x", stream="s") == 0
