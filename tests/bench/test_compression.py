"""The bench of compression: a short run, whose figures have to make sense."""

import pytest

from borzoi.bench.compression import BATCH, json_like, measure


def test_messages_are_alike_but_not_the_same() -> None:
    messages = [json_like(number) for number in range(BATCH)]
    assert len(set(messages)) == BATCH
    assert 200 < sum(map(len, messages)) / BATCH < 400
    assert messages == [json_like(number) for number in range(BATCH)]


@pytest.mark.slow
def test_a_short_run() -> None:
    found = measure("zstd", 0.2, segment_size="1MiB", variants=4)
    assert found.codec == "zstd"
    assert found.produce_mb_s > 0
    assert found.poll_mb_s > 0
    assert found.ratio > 2
    assert found.saved_mb > 0
