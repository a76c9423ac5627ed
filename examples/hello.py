"""A stream, a topic, a message in and out."""

import os

from borzoi.client import FIRST, BlockingClient

SERVER = os.environ.get("BORZOI_SERVER", "iggy://iggy:iggy@127.0.0.1:8090")

with BlockingClient.connect(SERVER) as client:
    if client.get_stream("hello") is None:
        client.create_stream("hello")
        client.create_topic("hello", "world")
    client.send_messages("hello", "world", ["hello", b"bytes as well"], partition_id=0)
    polled = client.poll_messages("hello", "world", 0, strategy=FIRST, count=2)
    for message in polled.messages:
        print(message.offset, bytes(message.payload).decode())
