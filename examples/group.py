"""Two members of a group share the partitions of a topic; each message goes to one of them."""

import os

from borzoi.client import COMMIT_ON_CLOSE, BlockingClient

SERVER = os.environ.get("BORZOI_SERVER", "iggy://iggy:iggy@127.0.0.1:8090")
PARTITIONS = 4

with BlockingClient.connect(SERVER) as one, BlockingClient.connect(SERVER) as two:
    if one.get_stream("group") is None:
        one.create_stream("group")
    one.create_topic("group", "jobs", PARTITIONS)
    for partition in range(PARTITIONS):
        one.send_messages("group", "jobs", [f"job {partition}"], partition_id=partition)

    # A session is a member once: two members are two clients.
    with (
        one.group_consumer("group", "jobs", "workers", commit=COMMIT_ON_CLOSE) as first,
        two.group_consumer("group", "jobs", "workers", commit=COMMIT_ON_CLOSE) as second,
    ):
        done = []
        while len(done) < PARTITIONS:
            for name, member in (("first", first), ("second", second)):
                for batch in member.batches(wait=False):
                    done += [bytes(message.payload).decode() for message in batch.messages]
                    print(name, "reads partition", batch.partition_id)
    print(", ".join(sorted(done)))
    one.delete_topic("group", "jobs")
