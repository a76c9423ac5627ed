"""Load through every door: what is sent arrives, and what is polled is what was sent."""

from dataclasses import replace

import pytest

from borzoi.bench.bed import Bed
from borzoi.bench.plans import HTTP_JSON, Goal, Role
from borzoi.bench.quantities import Range

MESSAGES = 40


@pytest.mark.slow
@pytest.mark.parametrize("transport", ["tls", "ws", "wss", "quic", "http", HTTP_JSON])
def test_load_through_a_door(transport: str) -> None:
    with Bed(1, transport=transport) as bed:
        ids = bed.stream()
        producers = bed.producers(
            ids,
            Goal(requests=5),
            connections=2,
            partitions=1,
            message_size=3000,
            messages_per_batch=MESSAGES,
        )
        sent = bed.rate(producers, warmup_ns=0)
        assert (sent.requests, sent.messages) == (10, 10 * MESSAGES)
        consumer = replace(
            bed.actor(Role.CONSUMER, 1, ids, Goal(messages=10 * MESSAGES)),
            message_size=Range(3000, 3000),
            messages_per_batch=Range(MESSAGES, MESSAGES),
        )
        assert consumer.transport == transport
        polled = bed.rate([consumer], warmup_ns=0)
        assert polled.messages == 10 * MESSAGES
        assert polled.user_bytes == sent.user_bytes == 10 * MESSAGES * 3000
