"""Messages of one key go to one partition, where they stay in the order in which they were sent."""

import os
from collections import defaultdict

from borzoi.client import FIRST, BlockingClient

SERVER = os.environ.get("BORZOI_SERVER", "iggy://iggy:iggy@127.0.0.1:8090")
PARTITIONS = 4

with BlockingClient.connect(SERVER) as client:
    if client.get_stream("keys") is None:
        client.create_stream("keys")
    client.create_topic("keys", "orders", PARTITIONS)
    with client.producer("keys", "orders") as producer:
        for step in ("ordered", "paid", "sent"):
            for customer in ("ada", "bob", "cy"):
                producer.send(f"{customer} {step}", key=customer)

    found = defaultdict(list)
    for partition in range(PARTITIONS):
        polled = client.poll_messages("keys", "orders", partition, strategy=FIRST, count=100)
        for message in polled.messages:
            customer, step = bytes(message.payload).decode().split()
            found[customer].append((partition, step))
    for customer, steps in sorted(found.items()):
        (partition,) = {partition for partition, _ in steps}
        print(f"{customer} in partition {partition}:", ", ".join(step for _, step in steps))
    client.delete_topic("keys", "orders")
