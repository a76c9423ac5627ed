"""A consumer waits for what comes while another thread sends."""

import os
import threading

from borzoi.client import FIRST, BlockingClient

EVENTS = 3
SERVER = os.environ.get("BORZOI_SERVER", "iggy://iggy:iggy@127.0.0.1:8090")


def send() -> None:
    """Three messages, each acknowledged before the next."""
    with BlockingClient.connect(SERVER) as client:
        for number in range(EVENTS):
            client.send_messages("follow", "events", [f"event {number}"], partition_id=0)


with BlockingClient.connect(SERVER) as client:
    if client.get_stream("follow") is None:
        client.create_stream("follow")
    client.create_topic("follow", "events")
    sender = threading.Thread(target=send)
    sender.start()
    with client.consumer("follow", "events", "watcher", start=FIRST) as consumer:
        for message in consumer:
            print(bytes(message.payload).decode())
            if message.offset == EVENTS - 1:
                break
    sender.join()
    client.delete_topic("follow", "events")
