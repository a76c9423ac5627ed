"""One broker whose store is the truth: what comes back, who is refused, what a send waits for."""

import os
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from borzoi.protocol.commands.groups import (
    CreateConsumerGroup,
    DeleteConsumerGroup,
    JoinConsumerGroup,
)
from borzoi.protocol.commands.offsets import (
    DeleteConsumerOffset,
    GetConsumerOffset,
    StoreConsumerOffset,
)
from borzoi.protocol.commands.streams import DeleteStream
from borzoi.protocol.commands.topics import DeleteSegments, PurgeTopic
from borzoi.protocol.commands.users import CreateUser
from borzoi.protocol.errors import CannotSaveMessagesToSegment
from borzoi.protocol.identifiers import Consumer, ConsumerKind
from tests.broker import BrokerProcess, wait_for
from tests.cluster.node_kills import run
from tests.cluster.replicated import SMALL, replicated
from tests.conftest import NewBroker
from tests.crash.experiment import new_seed
from tests.crash.kill_cycles import PINNED
from tests.crash.load import PARTITIONS, partitions_of
from tests.s3_server import BUCKET, S3Server
from tests.shard_wires import ONE_SHARD, connect, connect_to_shard
from tests.topics import make_topic
from tests.wire import ANYBODY, NEXT, Wire

pytestmark = pytest.mark.slow

GROUP = Consumer(ConsumerKind.GROUP, "g")
OTHER = Consumer(ConsumerKind.CONSUMER, 9)
LARGE = bytes(9_000)


def on_an_empty_disk(broker: BrokerProcess) -> Wire:
    """Kill the broker, and start it where nothing is."""
    broker.kill()
    shutil.rmtree(broker.data)
    broker.start()
    return connect(broker)


@pytest.mark.parametrize("checkpoints", [True, False])
def test_everything_comes_back_on_an_empty_disk(
    new_broker: NewBroker, tmp_path: Path, checkpoints: bool
) -> None:
    settings = {**replicated(tmp_path / "store"), **(SMALL if checkpoints else {})}
    broker = new_broker(**settings)
    wire = Wire(broker)
    for name in ("kept", "purged", "gone"):
        make_topic(wire, name, name, 4)
    wire.ask(CreateUser("reader", "a-password"))
    wire.ask(CreateConsumerGroup("kept", "kept", "g"))
    sent: dict[int, list[bytes]] = {partition: [] for partition in range(4)}
    for number in range(60):
        partition = number % 4
        batch = [b"%d" % number, LARGE]
        assert wire.send("kept", partition, *batch) == 0
        sent[partition] += batch
    for name in ("purged", "gone"):
        assert wire.send(name, 0, b"old") == 0
    wire.ask(PurgeTopic("purged", "purged"))
    assert wire.send("purged", 0, b"new") == 0
    wire.ask(DeleteStream("gone"))
    wire.ask(StoreConsumerOffset(ANYBODY, "kept", "kept", 1, 7))
    wire.ask(JoinConsumerGroup("kept", "kept", "g"))
    wire.ask(StoreConsumerOffset(GROUP, "kept", "kept", 2, 3))
    wire.ask(StoreConsumerOffset(OTHER, "kept", "kept", 1, 5))
    wire.ask(DeleteConsumerOffset(OTHER, "kept", "kept", 1))
    polled = wire.poll("kept", 3, NEXT, 4, consumer=OTHER, auto_commit=True)
    assert len(polled.messages) == 4
    # An auto-commit rides with what comes next.
    assert wire.send("kept", 3, b"last") == 0
    sent[3].append(b"last")
    if checkpoints:
        packs = lambda: list((tmp_path / "store").glob("lanes/*/packs/*"))  # noqa: E731
        wait_for(packs)
    with on_an_empty_disk(broker) as back:
        for partition, payloads in sent.items():
            assert back.payloads("kept", partition) == payloads
        assert back.payloads("purged") == [b"new"]
        assert back.ask(GetConsumerOffset(ANYBODY, "kept", "kept", 1)).stored_offset == 7
        assert back.ask(GetConsumerOffset(GROUP, "kept", "kept", 2)).stored_offset == 3
        assert back.ask(GetConsumerOffset(OTHER, "kept", "kept", 1)) is None
        assert back.ask(GetConsumerOffset(OTHER, "kept", "kept", 3)).stored_offset == 3
        # The same ids are given out as if nothing had happened.
        make_topic(back, "next", "next")
        assert back.send("next", 0, b"first") == 0
        assert back.send("kept", 0, b"goes on") == 0
        assert back.poll("kept", 0, NEXT, 1).current_offset == len(sent[0])
        with Wire(broker, login=False) as reader:
            reader.log_in("reader", "a-password")
    assert broker.stop() == 0
    assert "fault of ours" not in broker.output()


def test_deleted_segments_and_groups_stay_gone(new_broker: NewBroker, tmp_path: Path) -> None:
    broker = new_broker(**replicated(tmp_path / "store", shards=1), **SMALL)
    wire = Wire(broker)
    make_topic(wire, "s", "s")
    wire.ask(CreateConsumerGroup("s", "s", "g"))
    for _ in range(20):
        assert wire.send("s", 0, LARGE) == 0
    wire.ask(JoinConsumerGroup("s", "s", "g"))
    wire.ask(StoreConsumerOffset(GROUP, "s", "s", 0, 12))
    wire.ask(DeleteSegments("s", "s", 0, 1))
    first = wire.poll("s").messages[0].offset
    assert first > 0
    wire.ask(DeleteConsumerGroup("s", "s", "g"))
    # What was deleted rides with what comes next.
    assert wire.send("s", 0, b"end") == 0
    with on_an_empty_disk(broker) as back:
        messages = back.poll("s").messages
        assert (messages[0].offset, messages[-1].payload) == (first, b"end")
        back.ask(CreateConsumerGroup("s", "s", "g"))
        assert back.ask(GetConsumerOffset(GROUP, "s", "s", 0)) is None


def is_replaced(broker: BrokerProcess, shard: int, pid: int) -> bool:
    return broker.workers().get(shard, pid) != pid


def test_a_worker_that_dies_goes_on_from_its_lanes(new_broker: NewBroker, tmp_path: Path) -> None:
    broker = new_broker(**replicated(tmp_path / "store"), **SMALL)
    wire = Wire(broker)
    make_topic(wire, "s", "s", 4)
    sent = 0
    for shard in (0, 1, 0):
        before = broker.workers()[shard]
        for partition in range(4):
            with connect(broker) as other:
                assert other.send("s", partition, b"%d" % sent) == 0
        sent += 1
        os.kill(before, 9)
        wait_for(partial(is_replaced, broker, shard, before))
    expected = [b"%d" % number for number in range(sent)]
    for partition in range(4):
        with connect(broker) as back:
            assert back.payloads("s", partition) == expected


@pytest.mark.parametrize("owner", [0, 1])
def test_a_store_that_is_away_holds_sends_back_and_then_fails_them(
    new_broker: NewBroker, tmp_path: Path, owner: int
) -> None:
    """From a connection of shard 0, to a partition of its own and to one of its peer."""
    store, away = tmp_path / "store", tmp_path / "away"
    broker = new_broker(**replicated(store), **PINNED, IGGY_REPLICATION_STORE_TIMEOUT="500 ms")
    wire = connect_to_shard(broker, 0)
    make_topic(wire, "s", "s", PARTITIONS)
    partition = partitions_of(owner, 2)[0]
    assert wire.send("s", partition, b"before") == 0
    store.rename(away)
    with connect_to_shard(broker, 0) as unknown:
        # Its outcome is not known, so there is no status: the connection ends.
        unknown.begin_append("s", "s", partition, [b"unknown"])
        assert unknown.is_closed()
    with connect_to_shard(broker, 0) as refused:
        assert refused.send("s", partition, b"refused") == CannotSaveMessagesToSegment.status
        # Polls go on, and see what was stored.
        assert refused.payloads("s", partition) == [b"before"]
    away.rename(store)
    wait_for(lambda: wire.payloads("s", partition) == [b"before", b"unknown"])
    assert wire.send("s", partition, b"after") == 0
    with on_an_empty_disk(broker) as back:
        assert back.payloads("s", partition) == [b"before", b"unknown", b"after"]
    # A stop does not wait for a store that is away.
    store.rename(away)
    with connect_to_shard(broker, 0) as last:
        last.begin_append("s", "s", partition, [b"last"])
        assert last.is_closed()
    assert broker.stop() == 0


def test_another_node_takes_over_and_the_first_one_stops(
    new_broker: NewBroker, tmp_path: Path
) -> None:
    first = new_broker(**replicated(tmp_path / "store", "a"))
    second = BrokerProcess(tmp_path / "second", replicated(tmp_path / "store", "b"))
    wire = Wire(first)
    make_topic(wire, "s", "s")
    assert wire.send("s", 0, b"1") == 0
    try:
        second.start()
        with connect(second) as there:
            assert there.send("s", 0, b"2") == 0
            # The first one learns it from its next put, and answers that it is not appended.
            assert wire.send("s", 0, b"lost?") == 8
            assert first._process is not None
            assert first._process.wait(60) == 1
            assert "another node has taken the lane over (node b began last)" in first.output()
            assert there.payloads("s") == [b"1", b"2"]
    finally:
        second.close()


def test_a_bucket_is_a_store_too(
    tmp_path: Path, credentials: None, bucket: S3Server, new_broker: NewBroker
) -> None:
    settings = replicated(f"s3://{BUCKET}/{tmp_path.name}", shards=1)
    broker = new_broker(
        **settings,
        **SMALL,
        IGGY_REPLICATION_ENDPOINT=bucket.url,
        IGGY_REPLICATION_REGION="us-east-1",
        IGGY_REPLICATION_LANES="2",
    )
    wire = Wire(broker)
    make_topic(wire, "s", "s", 2)
    for number in range(10):
        assert wire.send("s", number % 2, b"%d" % number, LARGE) == 0
    before = [wire.payloads("s", partition) for partition in range(2)]
    with on_an_empty_disk(broker) as back:
        assert [back.payloads("s", partition) for partition in range(2)] == before
        assert [len(one) for one in before] == [10, 10]


def refusal(data: Path, settings: dict[str, str]) -> str:
    """What a broker says that does not start."""
    broker = BrokerProcess(data, settings)
    try:
        with pytest.raises(AssertionError, match="the broker ended with 1"):
            broker.start()
    finally:
        broker.close()
    return broker.output()


def test_bad_set_ups_are_refused_with_a_sentence(tmp_path: Path) -> None:
    here, there, store = tmp_path / "here", tmp_path / "there", tmp_path / "store"
    settings = replicated(store, shards=1)
    for data, own in ((here, settings), (there, ONE_SHARD)):
        broker = BrokerProcess(data, own)
        broker.start()
        assert broker.stop() == 0
    single = refusal(there, settings)
    assert "is the data directory of a single node: replication needs an empty one" in single
    off = refusal(here, ONE_SHARD)
    assert "is a copy of what a cluster has, and replication is off" in off
    other = replicated(tmp_path / "store2", shards=1)
    assert "has no cluster.json: it is not mounted, or emptied" in refusal(here, other)
    wrong = {**settings, "IGGY_REPLICATION_CLUSTER": "f" * 32}
    assert f"belongs to cluster {cluster_of(store)}, not to {'f' * 32}" in refusal(here, wrong)
    third = BrokerProcess(tmp_path / "third", other)
    third.start()
    assert third.stop() == 0
    exchanged = refusal(here, other)
    assert "is a copy of cluster" in exchanged
    lanes = {**replicated(tmp_path / "s3"), "IGGY_REPLICATION_LANES": "3"}
    assert "needs a multiple of the 2 shards" in refusal(tmp_path / "fourth", lanes)
    forbidden = {**replicated("ftp://host/x")}
    assert "neither a directory nor s3://BUCKET/PREFIX" in refusal(tmp_path / "fifth", forbidden)


def cluster_of(store: Path) -> str:
    return (store / "cluster.json").read_text().partition('"id":"')[2][:32]


def test_kills_lose_nothing_whatever_becomes_of_the_disk(tmp_path: Path) -> None:
    done = run(tmp_path, 4, new_seed())
    print(done.summary, done.met)
    assert done.summary.acknowledged > 0


def test_without_replication_nothing_of_it_is_imported() -> None:
    code = (
        "import sys, borzoi.shards.nursery.nursery, borzoi.shards.admin.commands,"
        " borzoi.shards.process.supervisor, borzoi.shards.run.worker_process;"
        " print([one for one in sys.modules if 'obstore' in one or 'borzoi.cluster' in one"
        " or 'shards.replication' in one])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "[]\n"), done.stderr
