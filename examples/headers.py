"""Headers beside the payload, and an id by which copies of a message are known."""

import os

from borzoi.client import FIRST, BlockingClient, new_message
from borzoi.protocol.headers import decode_user_headers, header_scalar

SERVER = os.environ.get("BORZOI_SERVER", "iggy://iggy:iggy@127.0.0.1:8090")

with BlockingClient.connect(SERVER) as client:
    if client.get_stream("headers") is None:
        client.create_stream("headers")
        client.create_topic("headers", "events")
    sent = new_message("an order", id=7, headers={"type": "order", "version": 3, "test": True})
    client.send_messages("headers", "events", [sent], partition_id=0)
    polled = client.poll_messages("headers", "events", 0, strategy=FIRST, count=1)
    for message in polled.messages:
        print("id", message.id)
        for name, value in decode_user_headers(message.user_headers).items():
            print(header_scalar(name), "=", header_scalar(value))
