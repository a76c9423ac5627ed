"""What was handled and not committed comes again; what was committed never does."""

import os

from borzoi.client import COMMIT_AFTER_EACH, COMMIT_DISABLED, BlockingClient

SERVER = os.environ.get("BORZOI_SERVER", "iggy://iggy:iggy@127.0.0.1:8090")


def read_two(commit) -> list[str]:
    """The next two messages of the consumer "billing", which then ends."""
    with (
        BlockingClient.connect(SERVER) as client,
        client.consumer("commits", "events", "billing", commit=commit) as consumer,
    ):
        return [bytes(next(consumer).payload).decode() for _ in range(2)]


with BlockingClient.connect(SERVER) as client:
    if client.get_stream("commits") is None:
        client.create_stream("commits")
    client.create_topic("commits", "events")
    client.send_messages("commits", "events", list("abcdef"), partition_id=0)

    print("not committed:", *read_two(COMMIT_DISABLED))
    print("so once more:", *read_two(COMMIT_AFTER_EACH))
    print("and then:", *read_two(COMMIT_AFTER_EACH))
    client.delete_topic("commits", "events")
