"""Reading is no taking away: from an offset, and from a time, as often as wanted."""

import os

from borzoi.client import FIRST, BlockingClient, from_offset, from_timestamp

SERVER = os.environ.get("BORZOI_SERVER", "iggy://iggy:iggy@127.0.0.1:8090")


def payloads(polled) -> str:
    """What was polled, as one line."""
    return " ".join(bytes(message.payload).decode() for message in polled.messages)


with BlockingClient.connect(SERVER) as client:
    if client.get_stream("replay") is None:
        client.create_stream("replay")
    client.create_topic("replay", "events")
    for letter in "abcde":
        client.send_messages("replay", "events", [letter], partition_id=0)

    everything = client.poll_messages("replay", "events", 0, strategy=FIRST, count=10)
    print("all:", payloads(everything))
    late = client.poll_messages("replay", "events", 0, strategy=from_offset(3), count=10)
    print("from offset 3:", payloads(late))
    third = everything.messages[2].timestamp
    since = client.poll_messages("replay", "events", 0, strategy=from_timestamp(third), count=1)
    print("from the time of the third:", payloads(since))
    client.delete_topic("replay", "events")
