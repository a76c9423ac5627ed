"""Which limit a large batch exceeds."""

import pytest

from borzoi.shards.partitions.large_batches import Exceeded, TooLarge, judge
from borzoi.storage.retention import UNLIMITED


@pytest.mark.parametrize(
    ("size", "topic_size", "expected"),
    [
        (100, 200, None),
        (101, 200, TooLarge(Exceeded.SEGMENT, 100)),
        (200, 200, TooLarge(Exceeded.SEGMENT, 100)),
        (201, 200, TooLarge(Exceeded.TOPIC, 200)),
        (1 << 40, UNLIMITED, TooLarge(Exceeded.SEGMENT, 100)),
        (1 << 40, 0, TooLarge(Exceeded.SEGMENT, 100)),
    ],
)
def test_the_limit_that_is_named(size: int, topic_size: int, expected: TooLarge | None) -> None:
    assert judge(size, 100, topic_size) == expected
