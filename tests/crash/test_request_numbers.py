"""A worker dies with a numbered request in its hands; the client comes back and sends it again.

Whatever was done by then, nothing or all but the answer, it is done once in the end.
"""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from borzoi.protocol import commands as c
from borzoi.protocol.errors import ConsumerOffsetNotFound, TransientOutcomeUnknown
from borzoi.protocol.permissions import UserStatus
from borzoi.storage.layout import DataLayout, index_path, log_path
from tests.broker import BrokerProcess, wait_for
from tests.conftest import NewBroker
from tests.crash.kill_cycles import PINNED, TWO_SHARDS
from tests.crash.load import PARTITIONS, partitions_of
from tests.crash.places import directory_of
from tests.crash.tracer import killed_at
from tests.numbered_wire import NumberedWire, messages, new_client, numbered_on_shard, sent_batch
from tests.shard_wires import connect
from tests.topics import topic_of
from tests.wire import READER, Answer, Closed

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        shutil.which("strace") is None, reason="strace kills at an exact system call"
    ),
]

TOPIC = "numbered"
ANSWERS = "write,writev,sendto,sendmsg"
"""How an answer leaves a worker; files are written otherwise."""
LOG_WRITES = "pwrite64,pwritev,pwritev2"
IN_DOUBT = TransientOutcomeUnknown.status


@pytest.fixture
def start(new_broker: NewBroker) -> Callable[[str], BrokerProcess]:
    def make(durability: str) -> BrokerProcess:
        settings = {"IGGY_SYSTEM_PARTITION_DURABILITY": durability}
        broker = new_broker(**TWO_SHARDS, **PINNED, **settings)
        with connect(broker) as wire:
            wire.ask(c.CreateStream(TOPIC))
            wire.ask(topic_of(TOPIC, PARTITIONS))
        return broker

    return make


def repeated(ask: Callable[[], Answer]) -> Answer:
    """As clients do: the same request again, while its outcome is said to be unknown."""

    def settled() -> Answer | None:
        answer = ask()
        return None if answer.status == IN_DOUBT else answer

    answer = wait_for(settled, 30)
    assert answer is not None
    return answer


def socket_of(broker: BrokerProcess, shard: int, wire: NumberedWire) -> str:
    """What strace calls the worker's end of a connection."""
    pid = broker.workers()[shard]
    (descriptor,) = (
        one.fd
        for one in psutil.Process(pid).net_connections("tcp")
        if one.raddr and one.raddr.port == wire.port
    )
    return os.readlink(f"/proc/{pid}/fd/{descriptor}")


def killed(
    broker: BrokerProcess, shard: int, system_calls: str, trace: Path, *paths: str
) -> "Killing":
    return Killing(broker, shard, system_calls, trace, paths)


class Killing:
    """A worker that dies at a system call, while the block sends a request."""

    def __init__(
        self, broker: BrokerProcess, shard: int, calls: str, trace: Path, paths: tuple[str, ...]
    ) -> None:
        self._broker = broker
        self._shard = shard
        self._pid = broker.workers()[shard]
        self._killed = killed_at(self._pid, calls, trace, *paths)

    def __enter__(self) -> None:
        self._killed.__enter__()

    def __exit__(self, *exception: object) -> None:
        self._killed.__exit__(None, None, None)
        wait_for(lambda: self._broker.workers().get(self._shard, self._pid) != self._pid)


@pytest.mark.parametrize(
    ("durability", "system_calls", "path_of"),
    [
        ("written", LOG_WRITES, log_path),  # not written
        ("written", LOG_WRITES, index_path),  # the log has the batch, the index does not
        ("written", ANSWERS, None),  # written, not answered
        ("fsync", "fdatasync", log_path),  # written, not synced
        ("buffered", ANSWERS, None),  # in memory alone
    ],
)
@pytest.mark.parametrize("comes_back_to", [0, 1])
def test_a_batch_whose_worker_dies_is_stored_once(
    start: Callable[[str], BrokerProcess],
    tmp_path: Path,
    durability: str,
    system_calls: str,
    path_of: Callable[[str, int], str] | None,
    comes_back_to: int,
) -> None:
    """The worker owns the partition; others send there as well, before and after."""
    broker = start(durability)
    partition, client = partitions_of(1, 2)[0], new_client()
    batch = messages(100, 5)
    wire = numbered_on_shard(broker, 1, client)
    other = numbered_on_shard(broker, 0, new_client())
    assert wire.send_batch(1, TOPIC, partition, messages(0, 3)).status == 0
    paths = [] if path_of is None else [path_of(directory_of(broker, partition), 0)]
    with killed(broker, 1, system_calls, tmp_path / "trace", *paths):
        wire.put_batch(2, TOPIC, partition, batch)
    with pytest.raises(Closed):
        wire.answer()
    assert other.send_batch(1, TOPIC, partition, messages(200, 2)).status == 0
    with numbered_on_shard(broker, comes_back_to, client) as again:
        answer = repeated(lambda: again.send_batch(2, TOPIC, partition, batch))
        found = other.poll(TOPIC, partition).messages
        ours = [message for message in found if message.payload in {one.payload for one in batch}]
        assert [message.payload for message in ours] == [one.payload for one in batch]
        assert sent_batch(answer).base_offset == ours[0].offset
        # The second time it is the answer that is repeated.
        assert again.send_batch(2, TOPIC, partition, batch) == answer
        assert len(other.poll(TOPIC, partition).messages) == len(found)


def test_a_batch_whose_receiver_dies_is_stored_once_by_its_owner(
    start: Callable[[str], BrokerProcess], tmp_path: Path
) -> None:
    """The owner lives on with the batch of a dead shard, and is asked for it again."""
    broker = start("written")
    partition, client = partitions_of(0, 2)[0], new_client()
    batch = messages(100, 5)
    wire = numbered_on_shard(broker, 1, client)
    assert wire.send_batch(1, TOPIC, partition, messages(0)).status == 0
    # By its socket: the bell of the owner is a write, too.
    with killed(broker, 1, ANSWERS, tmp_path / "trace", socket_of(broker, 1, wire)):
        wire.put_batch(2, TOPIC, partition, batch)
    with numbered_on_shard(broker, 0, client) as again:
        answer = repeated(lambda: again.send_batch(2, TOPIC, partition, batch))
        assert sent_batch(answer).base_offset == 1
        assert len(again.poll(TOPIC, partition).messages) == 6


@pytest.mark.parametrize("comes_back_to", [0, 1])
@pytest.mark.parametrize("system_calls", [LOG_WRITES, "fdatasync"])
def test_a_change_whose_worker_dies_is_made_once(
    start: Callable[[str], BrokerProcess], tmp_path: Path, system_calls: str, comes_back_to: int
) -> None:
    """Shard 0 dies before the entry is written, and before it is synced and published."""
    broker = start("written")
    client, log = new_client(), DataLayout(broker.data).state_log
    wire = numbered_on_shard(broker, 0, client)
    assert wire.numbered(1, c.CreateStream("first")).status == 0
    create = c.CreateStream("second")
    with killed(broker, 0, system_calls, tmp_path / "trace", log):
        wire.put_command(2, create)
    with numbered_on_shard(broker, comes_back_to, client) as again:
        answer = repeated(lambda: again.numbered(2, create))
        assert answer.status == 0
        names = [stream.name for stream in again.ask(c.GetStreams())]
        assert names == [TOPIC, "first", "second"]
        assert again.numbered(2, create) == answer
    with killed(broker, 0, system_calls, tmp_path / "again", log):
        numbered_on_shard(broker, 0, client).put_command(3, c.DeleteStream("second"))
    with numbered_on_shard(broker, comes_back_to, client) as again:
        assert repeated(lambda: again.numbered(3, c.DeleteStream("second"))).status == 0
        assert [stream.name for stream in again.ask(c.GetStreams())] == [TOPIC, "first"]


@pytest.mark.parametrize("system_calls", [LOG_WRITES, "fdatasync"])
def test_a_client_of_another_shard_repeats_its_change_on_the_same_connection(
    start: Callable[[str], BrokerProcess], tmp_path: Path, system_calls: str
) -> None:
    broker = start("written")
    create = c.CreateUser("ann", "a password", UserStatus.ACTIVE, None)
    with numbered_on_shard(broker, 1, new_client()) as wire:
        with killed(broker, 0, system_calls, tmp_path / "trace", DataLayout(broker.data).state_log):
            wire.put_command(1, create)
            assert wire.answer().status == IN_DOUBT
        answer = repeated(lambda: wire.numbered(1, create))
        assert answer.status == 0
        assert wire.numbered(1, create) == answer
        assert [user.username for user in wire.ask(c.GetUsers())] == ["iggy", "ann"]


def test_offsets_in_doubt_are_stored_and_deleted_in_the_end(
    start: Callable[[str], BrokerProcess], tmp_path: Path
) -> None:
    broker = start("written")
    partition, client = partitions_of(1, 2)[0], new_client()
    store = c.StoreConsumerOffset(READER, TOPIC, TOPIC, partition, 1)
    delete = c.DeleteConsumerOffset(READER, TOPIC, TOPIC, partition)
    wire = numbered_on_shard(broker, 1, client)
    assert wire.send_batch(1, TOPIC, partition, messages(0, 3)).status == 0
    with killed(broker, 1, ANSWERS, tmp_path / "trace"):
        wire.put_command(2, store)
    wire = numbered_on_shard(broker, 0, client)
    assert repeated(lambda: wire.numbered(2, store)).status == 0
    get = c.GetConsumerOffset(READER, TOPIC, TOPIC, partition)
    assert wire.ask(get).stored_offset == 1
    wire = numbered_on_shard(broker, 1, client)
    with killed(broker, 1, ANSWERS, tmp_path / "again"):
        wire.put_command(3, delete)
    wire = numbered_on_shard(broker, 0, client)
    assert repeated(lambda: wire.numbered(3, delete)).status == 0
    assert wire.numbered(4, delete).status == ConsumerOffsetNotFound.status


def test_after_a_restart_of_the_broker_nothing_is_remembered_but_changes(
    start: Callable[[str], BrokerProcess],
) -> None:
    """The memory ends with the broker; the numbers of changes are in the log."""
    broker = start("written")
    clients = [new_client() for _ in range(3)]
    create, delete = c.CreateStream("made"), c.DeleteStream("gone")

    def ask() -> list[Answer]:
        wires = [NumberedWire(broker, client) for client in clients]
        return [
            wires[0].send_batch(5, TOPIC, 0, messages(0)),
            wires[1].numbered(6, create),
            wires[2].numbered(7, delete),
        ]

    with connect(broker) as wire:
        wire.ask(c.CreateStream("gone"))
    before = ask()
    broker.kill()
    broker.start()
    after = ask()
    assert [sent_batch(answer[0]).base_offset for answer in (before, after)] == [0, 1]
    assert before[1:] == after[1:]
    assert [answer.status for answer in after] == [0, 0, 0]
