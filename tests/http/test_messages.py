"""Messages over HTTP in every form: JSON, lines, bytes; waiting, and streams of events."""

import base64
import gzip
import http.client
import json
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from borzoi.protocol.message import Message, decode_messages, encode_messages
from borzoi.protocol.permissions import GlobalPermissions
from borzoi.shards.web_forms.limits import PIECE_SIZE
from tests.broker import BrokerProcess
from tests.http_client import HttpAnswer, HttpClient

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

OCTETS = "application/octet-stream"
LINES = "application/x-ndjson"
TIMEOUT_S = 60.0


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def send(client: HttpClient, topic: str, *payloads: bytes) -> HttpAnswer:
    body = {
        "partitioning": {"kind": "partition_id", "value": b64(bytes(4))},
        "messages": [{"payload": b64(one)} for one in payloads],
    }
    return client.ask("POST", f"{topic}/messages", body)


def polled(client: HttpClient, topic: str, query: str = "count=1000") -> list[bytes]:
    answer = client.ask("GET", f"{topic}/messages?{query}")
    assert answer.status == 200, answer
    assert answer.json["count"] == len(answer.json["messages"])
    return [base64.b64decode(one["payload"]) for one in answer.json["messages"]]


@pytest.mark.slow
def test_a_large_answer_comes_in_pieces(root: HttpClient, topic: str) -> None:
    payload = bytes(range(256)) * 1000
    for _ in range(5):
        assert send(root, topic, payload).status == 201
    answer = root.ask("GET", f"{topic}/messages?count=5")
    assert len(answer.body) > PIECE_SIZE
    assert answer.headers["Transfer-Encoding"] == "chunked"
    assert [base64.b64decode(one["payload"]) for one in answer.json["messages"]] == [payload] * 5


@pytest.mark.slow
def test_polls_commit_and_go_on(root: HttpClient, topic: str) -> None:
    send(root, topic, b"0", b"1", b"2")
    assert polled(root, topic, "kind=next&count=2&auto_commit=true") == [b"0", b"1"]
    assert polled(root, topic, "kind=n&count=2&auto_commit=true") == [b"2"]
    assert polled(root, topic, "kind=next&consumer_id=other") == [b"0", b"1", b"2"]
    stored = root.ask("GET", f"{topic}/consumer-offsets?consumer_id=1&partition_id=0")
    assert stored.json == {"partition_id": 0, "current_offset": 2, "stored_offset": 2}


@pytest.mark.slow
def test_balanced_and_by_key(root: HttpClient, topic: str) -> None:
    assert root.ask("POST", f"{topic}/partitions", {"partitions_count": 3}).status == 201
    for partitioning in (
        {"kind": "balanced", "value": ""},
        {"kind": "messages_key", "value": b64(b"key")},
    ):
        body = {"partitioning": partitioning, "messages": [{"payload": b64(b"x")}]}
        for _ in range(4):
            assert root.ask("POST", f"{topic}/messages", body).status == 201
    counts = [one["messages_count"] for one in root.ask("GET", topic).json["partitions"]]
    assert sum(counts) == 8
    assert max(counts) >= 4


@pytest.mark.slow
def test_bytes_in_and_out(root: HttpClient, topic: str) -> None:
    sent = [Message(b"%d" % number, id=number + 1, user_headers=b"raw") for number in range(50)]
    body = encode_messages(sent)
    path = f"{topic}/messages?partition_id=0&count=50"
    assert root.ask("POST", path, body, {"Content-Type": OCTETS}).status == 201
    answer = root.ask("GET", f"{topic}/messages?count=100", headers={"Accept": OCTETS})
    assert answer.headers["Content-Type"] == OCTETS
    assert answer.headers["Messages-Count"] == "50"
    assert answer.headers["Current-Offset"] == "49"
    found = list(decode_messages(memoryview(answer.body)))
    assert [(one.payload, one.id, one.user_headers) for one in found] == [
        (one.payload, one.id, one.user_headers) for one in sent
    ]
    # What came out goes in again.
    assert root.ask("POST", path, answer.body, {"Content-Type": OCTETS}).status == 201
    assert len(polled(root, topic)) == 100


@pytest.mark.slow
@pytest.mark.parametrize(
    ("query", "change", "status"),
    [
        ("partition_id=0", lambda body: body, 400),
        ("partition_id=0&count=0", lambda body: body, 400),
        ("partition_id=0&count=3", lambda body: body, 400),
        ("partition_id=0&count=1", lambda body: body, 400),
        ("partition_id=0&count=4000000000", lambda body: body, 400),
        ("partition_id=0&count=2", lambda body: body[:-1], 400),
        ("partition_id=0&count=2", lambda body: body + b"x", 400),
        ("partition_id=0&count=2", lambda body: body[:52] + b"\xff" * 4 + body[56:], 400),
        ("partition_id=0&key=YQ==&count=2", lambda body: body, 400),
        ("key=?&count=2", lambda body: body, 400),
        ("key=&count=2", lambda body: body, 400),
        ("partition_id=9&count=2", lambda body: body, 404),
        ("key=YQ==&count=2", lambda body: body, 201),
        ("count=2", lambda body: body, 201),
    ],
)
def test_bytes_that_are_no_messages(
    root: HttpClient, topic: str, query: str, change: Any, status: int
) -> None:
    body = change(encode_messages([Message(b"one"), Message(b"two")]))
    answer = root.ask("POST", f"{topic}/messages?{query}", body, {"Content-Type": OCTETS})
    assert answer.status == status, answer


@pytest.mark.slow
def test_lines_in_and_out(root: HttpClient, topic: str) -> None:
    lines = "\n".join(json.dumps({"payload": b64(b"%d" % number)}) for number in range(20))
    path = f"{topic}/messages?partition_id=0"
    assert root.ask("POST", path, lines.encode(), {"Content-Type": LINES}).status == 201
    answer = root.ask("GET", f"{topic}/messages?count=100", headers={"Accept": LINES})
    assert answer.headers["Content-Type"] == LINES
    found = [json.loads(line) for line in answer.body.splitlines()]
    assert [base64.b64decode(one["payload"]) for one in found] == [b"%d" % n for n in range(20)]
    for bad, status in ((b'{"payload":1}', 422), (b"nonsense", 400), (b"", 400), (b"\n\n", 400)):
        assert root.ask("POST", path, bad, {"Content-Type": LINES}).status == status


@pytest.mark.slow
@pytest.mark.parametrize("packing", ["gzip", "zstd", "deflate", "identity"])
def test_packed_bodies(root: HttpClient, topic: str, packing: str) -> None:
    packs: dict[str, Callable[[bytes], bytes]] = {
        "gzip": gzip.compress,
        "zstd": zstd.compress,
        "deflate": zlib.compress,
        "identity": bytes,
    }
    body = json.dumps({"payload": b64(b"packed")}).encode()
    headers = {"Content-Type": LINES, "Content-Encoding": packing}
    assert root.ask("POST", f"{topic}/messages", packs[packing](body), headers).status == 201
    assert polled(root, topic) == [b"packed"]


@pytest.mark.slow
def test_a_poll_waits_for_messages(root: HttpClient, topic: str) -> None:
    for number in range(2):
        found: list[list[bytes]] = []
        query = f"kind=offset&value={number}&wait=30s"
        waiting = threading.Thread(target=lambda q=query, f=found: f.append(polled(root, topic, q)))
        waiting.start()
        # Whether the poll is there already does not matter: it finds the message or waits for it.
        assert send(root, topic, b"%d" % number).status == 201
        waiting.join(TIMEOUT_S)
        assert found == [[b"%d" % number]]


@pytest.mark.slow
def test_a_wait_ends(root: HttpClient, topic: str) -> None:
    began = time.monotonic()
    assert polled(root, topic, "wait=300ms") == []
    assert time.monotonic() - began >= 0.3
    assert root.ask("GET", f"{topic}/messages?wait=61s").status == 400
    assert root.ask("GET", f"{topic}/messages?wait=long").status == 400


class Events:
    """A stream of events that is being read."""

    def __init__(
        self, broker: BrokerProcess, client: HttpClient, path: str, **headers: str
    ) -> None:
        self._connection = http.client.HTTPConnection(broker.http_address, timeout=TIMEOUT_S)
        sent = {"Authorization": f"Bearer {client.token}"}
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        self._connection.request("GET", path, headers=sent)
        self.answer = self._connection.getresponse()

    def __iter__(self) -> Iterator[dict[str, str]]:
        event: dict[str, str] = {}
        while line := self.answer.readline():
            if line == b"\n":
                if event:
                    yield event
                event = {}
            elif not line.startswith(b":"):
                name, _, value = line.decode().rstrip("\n").partition(": ")
                event[name] = value

    def close(self) -> None:
        self.answer.close()
        self._connection.close()


@pytest.mark.slow
def test_a_stream_goes_on_where_it_was(
    http_broker: BrokerProcess, root: HttpClient, topic: str
) -> None:
    send(root, topic, b"0", b"1")
    events = Events(http_broker, root, f"{topic}/messages/stream")
    assert events.answer.status == 200
    assert events.answer.headers["Content-Type"] == "text/event-stream"
    following = iter(events)
    seen = [next(following), next(following)]
    send(root, topic, b"2")
    seen.append(next(following))
    assert [one["id"] for one in seen] == ["0", "1", "2"]
    payloads = [base64.b64decode(json.loads(one["data"])["payload"]) for one in seen]
    assert payloads == [b"0", b"1", b"2"]
    events.close()
    send(root, topic, b"3")
    again = Events(http_broker, root, f"{topic}/messages/stream?kind=first", Last_Event_ID="1")
    following = iter(again)
    assert [next(following)["id"], next(following)["id"]] == ["2", "3"]
    again.close()


@pytest.mark.slow
def test_a_stream_ends_with_its_token(
    http_broker: BrokerProcess, root: HttpClient, topic: str
) -> None:
    client = HttpClient(http_broker).login()
    events = Events(http_broker, client, f"{topic}/messages/stream")
    assert client.ask("DELETE", "/users/logout").status == 204
    (end,) = iter(events)
    assert end["event"] == "end"
    events.close()


@pytest.mark.slow
def test_a_stream_ends_with_its_topic(http_broker: BrokerProcess, root: HttpClient) -> None:
    assert root.ask("POST", "/streams", {"name": "ending"}).status == 200
    new = {"name": "t", "partitions_count": 1}
    assert root.ask("POST", "/streams/ending/topics", new).status == 200
    events = Events(http_broker, root, "/streams/ending/topics/t/messages/stream")
    assert root.ask("DELETE", "/streams/ending").status == 204
    (end,) = iter(events)
    assert json.loads(end["data"])["code"] == "stream_id_not_found"
    events.close()
    missing = Events(http_broker, root, "/streams/ending/topics/t/messages/stream")
    assert missing.answer.status == 404
    missing.close()
    bad = Events(http_broker, root, "/streams/x/topics/t/messages/stream", Last_Event_ID="x")
    assert bad.answer.status == 400
    bad.close()


@pytest.mark.slow
def test_permissions_of_messages(http_broker: BrokerProcess, root: HttpClient, topic: str) -> None:
    nothing = dict.fromkeys(GlobalPermissions.__dataclass_fields__, False)
    new = {"username": "reader", "password": "secret"}
    assert root.ask("POST", "/users", new).status == 200
    reader = HttpClient(http_broker).login("reader", "secret")
    try:
        assert send(reader, topic, b"x").status == 403
        assert reader.ask("GET", f"{topic}/messages").status == 403
        assert reader.ask("GET", f"{topic}/messages/stream").status == 403
        may = {"permissions": {"global": {**nothing, "poll_messages": True}}}
        assert root.ask("PUT", "/users/reader/permissions", may).status == 204
        assert reader.ask("GET", f"{topic}/messages").status == 200
        assert send(reader, topic, b"x").status == 403
    finally:
        assert root.ask("DELETE", "/users/reader").status == 204
