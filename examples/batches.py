"""Many messages through a producer, which makes batches of them and says when all are there."""

import os
import time

from borzoi.client import BlockingClient

SERVER = os.environ.get("BORZOI_SERVER", "iggy://iggy:iggy@127.0.0.1:8090")
COUNT = 100_000

with BlockingClient.connect(SERVER) as client:
    if client.get_stream("batches") is None:
        client.create_stream("batches")
    client.create_topic("batches", "events", 2)
    began = time.perf_counter()
    with client.producer("batches", "events") as producer:
        producer.send_all(b"event %d" % number for number in range(COUNT))
        producer.flush()
    took = time.perf_counter() - began
    topic = client.get_topic("batches", "events")
    assert topic is not None
    print(f"{topic.topic.messages_count} messages, {COUNT / took:,.0f} per second")
    client.delete_topic("batches", "events")
