"""Members of a consumer group over HTTP: a lease holds them, not a connection.

Every request of these tests has a connection of its own, so it comes to either shard.
"""

import os
import threading
import time
from typing import Any

import pytest

from borzoi.shards.web_groups.consuming import LEASE_MAX_S, LEASE_MIN_S
from tests.broker import HTTP, BrokerProcess, wait_for
from tests.conftest import NewBroker
from tests.http.rows import GLOBAL, b64
from tests.http_client import HttpAnswer, HttpClient
from tests.shard_wires import TWO_SHARDS

TRIES = 12  # requests, of which both shards get some


@pytest.fixture
def group(root: HttpClient, topic: str) -> str:
    """The path of a group of a topic with four partitions."""
    assert root.ask("POST", f"{topic}/partitions", {"partitions_count": 3}).status == 201
    assert root.ask("POST", f"{topic}/consumer-groups", {"name": "g"}).status == 201
    return f"{topic}/consumer-groups/g"


def join(client: HttpClient, group: str, lease: str = "30s") -> dict[str, Any]:
    answer = client.ask("POST", f"{group}/members", {"lease": lease})
    assert answer.status == 201, answer
    member: dict[str, Any] = answer.json
    return member


def send(client: HttpClient, topic: str, partition: int, *payloads: str) -> None:
    body = {
        "partitioning": {"kind": "partition_id", "value": b64(partition.to_bytes(4, "little"))},
        "messages": [{"payload": b64(one.encode())} for one in payloads],
    }
    assert client.ask("POST", f"{topic}/messages", body).status == 201


def poll(client: HttpClient, group: str, member: str, query: str = "count=100") -> HttpAnswer:
    return client.ask("GET", f"{group}/members/{member}/messages?{query}")


def held(client: HttpClient, group: str) -> list[int]:
    """How many partitions each member has."""
    return sorted(one["partitions_count"] for one in client.ask("GET", group).json["members"])


def test_a_member_polls_and_commits_through_any_shard(
    root: HttpClient, topic: str, group: str
) -> None:
    member = join(root, group)
    assert sorted(member["partitions"]) == [0, 1, 2, 3]
    assert member["lease"] == 30_000_000
    for partition in range(4):
        send(root, topic, partition, f"{partition}-0", f"{partition}-1")
    seen = set()
    for _ in range(4):
        found = poll(root, group, member["id"], "count=1").json
        assert found["count"] == 1
        seen.add(found["partition_id"])
        commit = {"partition_id": found["partition_id"], "offset": 0}
        assert root.ask("PUT", f"{group}/members/{member['id']}/offsets", commit).status == 204
    assert seen == {0, 1, 2, 3}
    # All stand behind their first message now; an empty partition does not hide the others.
    again = [poll(root, group, member["id"], "count=9&auto_commit=true").json for _ in range(4)]
    assert sorted(one["messages"][0]["payload"] for one in again) == sorted(
        b64(f"{partition}-1".encode()) for partition in range(4)
    )
    assert poll(root, group, member["id"]).json["count"] == 0
    path = f"{topic}/consumer-offsets?consumer_id=g&kind=group&partition_id=2"
    assert root.ask("GET", path).json["stored_offset"] == 1
    path = f"{group}/members/{member['id']}/offsets?partition_id=2"
    assert root.ask("DELETE", path).status == 204
    assert poll(root, group, member["id"], "partition_id=2").json["count"] == 2


def test_two_members_share_and_one_that_leaves_gives_back(root: HttpClient, group: str) -> None:
    first, second = join(root, group), join(root, group)
    wait_for(lambda: held(root, group) == [2, 2])
    for _ in range(TRIES):
        assert root.ask("PUT", f"{group}/members/{second['id']}").status == 204
    assert root.ask("DELETE", f"{group}/members/{first['id']}").status == 204
    assert held(root, group) == [4]
    gone = poll(root, group, first["id"])
    assert (gone.status, gone.json["code"]) == (404, "consumer_group_member_not_found")
    assert root.ask("DELETE", f"{group}/members/{first['id']}").status == 404


@pytest.mark.slow
def test_a_lease_that_ends(root: HttpClient, topic: str, group: str) -> None:
    """A silent member loses its partitions; one that is heard of keeps them."""
    silent, heard = join(root, group, f"{LEASE_MIN_S}s"), join(root, group, f"{LEASE_MIN_S}s")
    wait_for(lambda: held(root, group) == [2, 2])

    def is_alone() -> bool:
        assert root.ask("PUT", f"{group}/members/{heard['id']}").status == 204
        return held(root, group) == [4]

    began = time.monotonic()
    wait_for(is_alone)
    assert time.monotonic() - began > LEASE_MIN_S - 1
    assert poll(root, group, silent["id"]).status == 404
    # A poll that waits for longer than the lease renews it.
    threading.Timer(LEASE_MIN_S + 1.5, send, (root, topic, 1, "late")).start()
    found = poll(root, group, heard["id"], "wait=30s").json
    assert (found["partition_id"], found["count"]) == (1, 1)


def test_another_user_cannot_use_a_member(
    http_broker: BrokerProcess, root: HttpClient, group: str
) -> None:
    rights = {"global": GLOBAL, "streams": None}
    user = {"username": "other", "password": "secret", "permissions": rights}
    assert root.ask("POST", "/users", user).status == 200
    other = HttpClient(http_broker).login("other", "secret")
    member = join(other, group)
    assert poll(other, group, member["id"]).status == 200
    for _ in range(TRIES):
        assert poll(root, group, member["id"]).status == 404
    # The removal of a user takes its members along.
    assert root.ask("DELETE", "/users/other").status == 204
    wait_for(lambda: held(root, group) == [])


@pytest.mark.parametrize(
    ("lease", "says"),
    [
        ("soon", b"needs a duration"),
        (f"{LEASE_MIN_S - 1}s", b"needs 2 to 3600 s"),
        (f"{LEASE_MAX_S + 1}s", b"needs 2 to 3600 s"),
    ],
)
def test_leases_have_bounds(root: HttpClient, group: str, lease: str, says: bytes) -> None:
    answer = root.ask("POST", f"{group}/members", {"lease": lease})
    assert answer.status == 400
    assert says in answer.body
    assert held(root, group) == []


@pytest.mark.parametrize("member", ["7-1", "0-99999999999", "x", "0-1", "-"])
def test_what_is_no_member(root: HttpClient, group: str, member: str) -> None:
    for _ in range(TRIES // 3):
        assert poll(root, group, member).status == 404


def test_a_group_that_is_deleted_takes_its_members_along(root: HttpClient, group: str) -> None:
    # Members of earlier tests may leave meanwhile, when their leases end.
    before = clients(root)
    member = join(root, group)
    (joined,) = clients(root) - before
    assert root.ask("DELETE", group).status == 204
    assert poll(root, group, member["id"]).status == 404
    wait_for(lambda: joined not in clients(root))


def clients(root: HttpClient) -> set[int]:
    return {one["client_id"] for one in root.ask("GET", "/clients").json}


@pytest.mark.slow
def test_a_worker_that_dies_takes_its_members_along(new_broker: NewBroker) -> None:
    """Its members hear that they are none, the others get the partitions, and nothing is lost."""
    broker = new_broker(**TWO_SHARDS, **HTTP)
    root = HttpClient(broker).login()
    root.ask("POST", "/streams", {"name": "s"})
    root.ask("POST", "/streams/s/topics", {"name": "t", "partitions_count": 4})
    topic, group = "/streams/s/topics/t", "/streams/s/topics/t/consumer-groups/g"
    root.ask("POST", f"{topic}/consumer-groups", {"name": "g"})
    members = {0: "", 1: ""}
    while not all(members.values()):
        member = join(root, group)["id"]
        shard = int(member.partition("-")[0])
        if members[shard]:
            root.ask("DELETE", f"{group}/members/{member}")
        members[shard] = members[shard] or member
    wait_for(lambda: held(root, group) == [2, 2])
    for partition in range(4):
        send(root, topic, partition, "kept")
    os.kill(broker.workers()[1], 9)

    def answered(method: str, path: str) -> int | None:
        try:
            return root.ask(method, path).status
        except OSError:
            return None  # of a connection to the worker that has died

    wait_for(lambda: answered("PUT", f"{group}/members/{members[1]}") == 404)
    wait_for(lambda: answered("GET", "/readyz") == 200 and held(root, group) == [4])
    seen = set()
    for _ in range(4):
        found = poll(root, group, members[0], "count=1&auto_commit=true&wait=10s").json
        seen.add((found["partition_id"], found["messages"][0]["payload"]))
    assert seen == {(partition, b64(b"kept")) for partition in range(4)}
