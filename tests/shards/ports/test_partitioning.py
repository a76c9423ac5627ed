"""The partitions of a topic in turn: one counter for the shard, whatever changes meanwhile."""

from typing import Any, cast

import pytest

from borzoi.protocol.errors import TopicIdNotFound
from borzoi.router.placement import pack_namespace, shard_of
from borzoi.router.target import Target
from borzoi.shards.changes.service import MetadataService
from borzoi.shards.metadata.state import Topic
from borzoi.shards.ports.partitioning import SendTargets, Spread

SHARDS = 2
STREAM = 3


class FakeTopic:
    """A topic of so many partitions."""

    id = 5

    def __init__(self, count: int) -> None:
        self.partitions_count = count


class FakeMetadata:
    """Finds every partition, and counts how often it is asked."""

    def __init__(self) -> None:
        self.version = 1
        self.asked = 0

    def target(self, stream_id: int, topic: FakeTopic, partition_id: int) -> Target:
        self.asked += 1
        return Target(pack_namespace(stream_id, topic.id, partition_id), 7, partition_id)


def spread_of(targets: SendTargets, count: int) -> Spread:
    stream: Any = type("FakeStream", (), {"id": STREAM})
    return targets._spread(stream, cast(Topic, FakeTopic(count)))


def partitions(spread: Spread, steps: int) -> list[int]:
    return [spread.next()[0].partition_id for _ in range(steps)]


def test_all_sessions_take_turns_together() -> None:
    metadata = FakeMetadata()
    targets = SendTargets(cast(MetadataService, metadata), SHARDS)
    first, second = spread_of(targets, 3), spread_of(targets, 3)
    assert partitions(first, 2) == [0, 1]
    assert partitions(second, 2) == [2, 0]
    assert partitions(first, 7) == [1, 2, 0, 1, 2, 0, 1]
    assert metadata.asked == 3


def test_each_place_has_its_owner() -> None:
    spread = spread_of(SendTargets(cast(MetadataService, FakeMetadata()), SHARDS), 8)
    for target, owner in (spread.next() for _ in range(8)):
        assert owner == shard_of(target.namespace, SHARDS)


def test_the_counter_survives_changes_of_the_metadata() -> None:
    metadata = FakeMetadata()
    targets = SendTargets(cast(MetadataService, metadata), SHARDS)
    assert partitions(spread_of(targets, 3), 2) == [0, 1]
    metadata.version = 2
    assert partitions(spread_of(targets, 5), 4) == [2, 3, 4, 0]
    metadata.version = 3
    assert partitions(spread_of(targets, 2), 3) == [1, 0, 1]


def test_nothing_to_balance_over() -> None:
    targets = SendTargets(cast(MetadataService, FakeMetadata()), SHARDS)
    with pytest.raises(TopicIdNotFound, match="no partitions to balance over"):
        spread_of(targets, 0)
