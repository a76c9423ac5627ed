"""Metadata does not get slower as it grows."""

import statistics
import time

import pytest

from borzoi.protocol.commands.streams import CreateStream
from borzoi.protocol.commands.system import GetStats
from borzoi.protocol.commands.topics import GetTopics
from tests.conftest import NewBroker
from tests.integration.wire import Wire, topic_of

TOPICS = 3000
SAMPLE = 300
RATIO_MAX = 2.0


def undisturbed(took: list[float]) -> float:
    """What one took when nothing else ran: the fastest tenth, as other tests share the cores."""
    return statistics.quantiles(took, n=10)[0]


@pytest.mark.slow
def test_the_last_topics_are_created_as_fast_as_the_first(new_broker: NewBroker) -> None:
    # Without waiting for the disk, whose moods would hide what is asked here.
    broker = new_broker(IGGY_SYSTEM_STATE_ENFORCE_FSYNC="false")
    wire = Wire(broker)
    wire.ask(CreateStream("s"))
    took = []
    for number in range(TOPICS):
        began = time.perf_counter()
        wire.ask(topic_of(f"topic {number}", 2, stream="s"))
        took.append(time.perf_counter() - began)
    first, last = undisturbed(took[:SAMPLE]), undisturbed(took[-SAMPLE:])
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
