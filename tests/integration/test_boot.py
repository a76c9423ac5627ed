"""What a started broker is: its processes, its files, what it says, and how it ends."""

import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import psutil
import pytest

from borzoi.protocol.codes import Code
from borzoi.protocol.commands.messages import FlushUnsavedBuffer
from borzoi.protocol.commands.streams import CreateStream
from borzoi.protocol.commands.topics import PurgeTopic
from borzoi.protocol.errors import CannotReadPartitions, Disconnected
from borzoi.protocol.framing import encode_request
from tests.broker import SERVE, START_TIMEOUT_S, BrokerProcess, wait_for
from tests.conftest import NewBroker
from tests.cpu_time import scheduled
from tests.integration.launching import environment, run_to_its_end
from tests.shard_wires import ONE_SHARD, TWO_SHARDS
from tests.topics import topic_of
from tests.wire import Wire

IDLE_MEMORY_MAX = 200 * 1000 * 1000
IDLE_WINDOW_S = 3.0
IDLE_CPU_MAX = 0.03
PAUSE_S = 3.0


def processes_of(broker: BrokerProcess) -> list[psutil.Process]:
    pids = (broker.pid, broker.nursery(), *broker.workers().values())
    return [psutil.Process(pid) for pid in pids]


def test_two_workers_on_two_cores(standing_broker: BrokerProcess) -> None:
    workers = standing_broker.workers()
    assert sorted(workers) == [0, 1]
    cores = [os.sched_getaffinity(pid) for pid in workers.values()]
    assert [len(one) for one in cores] == [1, 1]
    assert cores[0] != cores[1]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("cpu_allocation", "shards"), [("1", 1), ("all", len(os.sched_getaffinity(0)))]
)
def test_as_many_shards_as_configured(
    new_broker: NewBroker, cpu_allocation: str, shards: int
) -> None:
    broker = new_broker(IGGY_SYSTEM_SHARDING_CPU_ALLOCATION=cpu_allocation)
    assert sorted(broker.workers()) == list(range(shards))
    cores = [os.sched_getaffinity(pid) for pid in broker.workers().values()]
    assert len(set.union(*cores)) == shards
    wait_for(lambda: f" with {shards} shards " in broker.output())
    wire = Wire(broker)
    wire.ask(CreateStream("s"))
    wire.ask(topic_of("t", 8, stream="s"))
    for partition_id in range(8):
        assert wire.send("t", partition_id, b"x", stream="s") == 0
        polled = wire.poll("t", partition_id, stream="s")
        assert [message.payload for message in polled.messages] == [b"x"]


def test_it_says_where_it_serves(standing_broker: BrokerProcess) -> None:
    # It is ready a moment before it says so.
    wait_for(lambda: " serves TCP " in standing_broker.output())
    (line,) = [line for line in standing_broker.output().splitlines() if " serves TCP " in line]
    assert f"TCP on {standing_broker.address} " in line
    assert " 2 shards " in line
    assert "durability written" in line
    assert re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z  INFO supervisor ", line)
    log = standing_broker.data / "logs" / "iggy-server.log"
    assert line in log.read_text().splitlines()


def test_the_real_port_is_in_the_current_config(standing_broker: BrokerProcess) -> None:
    config = tomllib.loads((standing_broker.data / "runtime/current_config.toml").read_text())
    host, _, port = config["tcp"]["address"].rpartition(":")
    assert host == "127.0.0.1"
    assert int(port) > 0
    assert config["system"]["path"] == str(standing_broker.data)
    with socket.create_connection((host, int(port)), 5):
        pass


def test_directories(standing_broker: BrokerProcess, wire: Wire, topic: str) -> None:
    assert wire.send(topic, 0, b"x") == 0
    data = standing_broker.data
    assert stat.S_IMODE(data.stat().st_mode) == 0o700
    for file in ("info.json", "state.messages"):
        assert (data / file).is_file()
    for directory in ("backup", "logs", "runtime", "streams"):
        assert (data / directory).is_dir()
    (segment,) = data.glob("streams/*/topics/*/partitions/0/" + "0" * 20 + ".log")
    assert segment.with_suffix(".index").stat().st_size == 16
    readable_by_others = [
        path for path in data.rglob("*") if stat.S_IMODE(path.stat().st_mode) & 0o077
    ]
    assert readable_by_others == []


@pytest.mark.slow
def test_an_idle_broker_takes_little_memory_and_no_cpu(new_broker: NewBroker) -> None:
    broker = new_broker(**TWO_SHARDS)
    for _ in range(10):
        Wire(broker)
    processes = processes_of(broker)
    assert len(processes) == 4
    pids = [process.pid for process in processes]
    began, before = time.monotonic(), scheduled(pids).ran_s
    wait_for(lambda: time.monotonic() >= began + IDLE_WINDOW_S)
    used = scheduled(pids).ran_s - before
    assert used / (time.monotonic() - began) < IDLE_CPU_MAX
    # Proportional sizes: the workers share with the nursery what they have not changed.
    assert sum(process.memory_full_info().pss for process in processes) < IDLE_MEMORY_MAX


@pytest.mark.slow
def test_it_stops_in_time_although_clients_are_connected(broker: BrokerProcess) -> None:
    silent = Wire(broker, login=False)
    idle = [Wire(broker) for _ in range(4)]
    half = Wire(broker)
    half.put(encode_request(Code.SEND_MESSAGES, b"x" * 5000)[:1000])
    workers = list(broker.workers().values())
    assert broker.stop() == 0
    # The supervisor's clock is nearer than ours: it says so, and kills, after four and a half.
    assert "did not stop in time" not in broker.output()
    assert not any(psutil.pid_exists(pid) for pid in workers)
    for wire in (silent, *idle):
        assert wire.answer() == (Disconnected.status, b"")
        assert wire.is_closed()
        wire.close()
    half.close()


@pytest.mark.slow
def test_a_broker_that_was_paused_goes_on(new_broker: NewBroker) -> None:
    broker = new_broker(**TWO_SHARDS, IGGY_LIMITS_HEARTBEAT_TIMEOUT="2s")
    workers = broker.workers()
    wire = Wire(broker)
    paused_at = time.monotonic()
    os.killpg(broker.pid, signal.SIGSTOP)
    wait_for(lambda: time.monotonic() > paused_at + PAUSE_S)
    os.killpg(broker.pid, signal.SIGCONT)
    wait_for(lambda: "the broker stood still" in broker.output())
    wire.ask(CreateStream("still here"))
    assert broker.workers() == workers
    # One that alone stands still is replaced.
    os.kill(workers[1], signal.SIGSTOP)
    wait_for(lambda: broker.workers().get(1, workers[1]) != workers[1])


@pytest.mark.slow
def test_a_port_that_is_taken(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        done = run_to_its_end(tmp_path / "data", IGGY_TCP_ADDRESS=address)
    assert done.returncode != 0
    assert f"borzoi: cannot listen on {address}" in done.stderr
    assert "ddress already in use" in done.stderr
    assert "tcp.address or IGGY_TCP_ADDRESS names another address" in done.stderr
    assert not (tmp_path / "data/runtime/current_config.toml").exists()


@pytest.mark.slow
def test_two_brokers_do_not_share_a_port(
    standing_broker: BrokerProcess, tmp_path: Path, stream: str
) -> None:
    address = standing_broker.address
    done = run_to_its_end(tmp_path / "other", IGGY_TCP_ADDRESS=address)
    assert done.returncode != 0
    assert f"borzoi: cannot listen on {address}" in done.stderr
    Wire(standing_broker).ask(topic_of("still here", stream=stream))


@pytest.mark.slow
def test_the_supervisor_may_be_process_1(tmp_path: Path) -> None:
    """As in a container that runs nothing else."""
    unshare = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child"]
    if shutil.which("unshare") is None or subprocess.run([*unshare, "true"]).returncode:
        pytest.skip("no pid namespace can be made on this machine")
    ready = tmp_path / "data/runtime/current_config.toml"
    process = subprocess.Popen(
        [*unshare, sys.executable, "-c", SERVE, "serve"],
        cwd=tmp_path,
        env=environment(tmp_path / "data", {}),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_for(lambda: process.poll() is not None or ready.exists(), START_TIMEOUT_S)
        assert process.poll() is None
    finally:
        process.kill()
        process.wait()


@pytest.mark.slow
def test_a_data_directory_that_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("not a directory")
    done = run_to_its_end(tmp_path / "data")
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"borzoi: system.path is {tmp_path / 'data'}: ")


@pytest.mark.slow
def test_data_younger_than_the_metadata_is_not_removed(broker: BrokerProcess) -> None:
    wire = Wire(broker)
    wire.ask(CreateStream("s"))
    state = broker.data / "state.messages"
    older = state.read_bytes()
    wire.ask(topic_of("t", 1, stream="s"))
    assert wire.send("t", 0, b"x", stream="s") == 0
    broker.stop()
    newer = state.read_bytes()
    # An old copy of one file is restored.
    state.write_bytes(older)
    done = run_to_its_end(broker.data)
    assert done.returncode == 1
    assert "was made by metadata entry 3" in done.stderr
    assert f"{state} ends with entry 2" in done.stderr
    state.write_bytes(newer)
    broker.start()
    polled = Wire(broker).poll("t", 0, stream="s")
    assert [message.payload for message in polled.messages] == [b"x"]


@pytest.mark.slow
def test_small_things_that_are_lost_cost_no_messages(broker: BrokerProcess) -> None:
    wire = Wire(broker)
    wire.ask(CreateStream("s"))
    wire.ask(topic_of("t", 3, stream="s"))
    for partition in range(3):
        assert wire.send("t", partition, b"x", stream="s") == 0
    broker.stop()
    found = broker.data / "streams/0/topics/0/partitions"
    (found / "0" / "birth").unlink()
    shutil.rmtree(found / "1" / "offsets")
    (found / "2").rename(broker.data.parent / "elsewhere")
    (broker.data / "streams/7").write_bytes(b"not ours")
    broker.start()
    wire = Wire(broker)
    for partition in range(2):
        assert wire.send("t", partition, b"y", stream="s") == 0
        wire.ask(FlushUnsavedBuffer("s", "t", partition, True))
        polled = wire.poll("t", partition, stream="s")
        assert [message.payload for message in polled.messages] == [b"x", b"y"]
    # The files may be on a disk that is not mounted: nothing begins in their place.
    assert wire.send("t", 2, b"y", stream="s") == CannotReadPartitions.status
    assert f"{found / '2'} is missing" in broker.output()
    broker.stop()
    broker.start()
    wire = Wire(broker)
    assert wire.send("t", 2, b"y", stream="s") == CannotReadPartitions.status
    wire.ask(PurgeTopic("s", "t"))
    assert wire.send("t", 2, b"z", stream="s") == 0


def test_the_same_port_again_while_old_connections_linger(broker: BrokerProcess) -> None:
    for _ in range(3):
        Wire(broker)
    address = broker.address
    broker.stop()
    broker.start()
    assert broker.address == address
    Wire(broker).close()


@pytest.mark.slow
def test_one_data_directory_has_one_broker(standing_broker: BrokerProcess, stream: str) -> None:
    done = run_to_its_end(standing_broker.data)
    assert done.returncode != 0
    assert str(standing_broker.data) in done.stderr
    assert "another broker" in done.stderr
    Wire(standing_broker).ask(topic_of("still here", stream=stream))


@pytest.mark.slow
def test_settings_that_do_nothing_are_named_once(new_broker: NewBroker) -> None:
    idle = {"IGGY_TCP_ADRESS": "127.0.0.1:1", "IGGY_TELEMETRY_SERVICE_NAME": "other"}
    broker = new_broker(**ONE_SHARD, **idle)
    warnings = [line for line in broker.output().splitlines() if " WARN " in line]
    for said in (
        r"IGGY_TCP_ADRESS.*IGGY_TCP_ADDRESS",
        r"telemetry\.service_name = 'other' has no effect",
    ):
        assert len([line for line in warnings if re.search(said, line)]) == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("IGGY_SYSTEM_SHARDING_CPU_ALLOCATION", "0"),
        ("IGGY_SYSTEM_SHARDING_CPU_ALLOCATION", "100000"),
        ("IGGY_TCP_ADDRESS", "nonsense"),
        ("IGGY_SYSTEM_PARTITION_DURABILITY", "maybe"),
    ],
)
def test_settings_that_cannot_be_used_end_the_start(tmp_path: Path, name: str, value: str) -> None:
    done = run_to_its_end(tmp_path / "data", **{name: value})
    assert done.returncode == 1
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("borzoi: ")]
    assert value in line
