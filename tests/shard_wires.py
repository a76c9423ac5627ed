"""Connections that a certain shard has accepted. The kernel chooses, so it takes several."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from borzoi.protocol.commands import LoginUser
from tests.broker import BrokerProcess, wait_for
from tests.wire import ROOT, Closed, Wire

# Whatever the machine has: tests that look at both shards need exactly two.
TWO_SHARDS: Final = {"IGGY_SYSTEM_SHARDING_CPU_ALLOCATION": "2"}
# For what one worker decides or the supervisor does: the other would only have to be started.
ONE_SHARD: Final = {"IGGY_SYSTEM_SHARDING_CPU_ALLOCATION": "1"}

REQUEST_TIMEOUT_S: Final = 30.0
CONNECT_TIMEOUT_S: Final = 30.0
CONNECTIONS_MAX: Final = 16


def connect(broker: BrokerProcess, *, login: bool = True) -> Wire:
    """A connection to any shard, tried again while workers are being replaced."""

    def attempt() -> Wire | None:
        try:
            return Wire(broker, login=login, timeout_s=REQUEST_TIMEOUT_S)
        except Closed:
            return None

    wire = wait_for(attempt, CONNECT_TIMEOUT_S)
    assert wire is not None
    return wire


def connect_to_shard(broker: BrokerProcess, shard: int, *, login: bool = True) -> Wire:
    """A connection that this shard has accepted.

    While the shard's worker is being replaced nothing goes there, so it may take a while too.
    """
    wire = wait_for(lambda: _try_shard(broker, shard, login), CONNECT_TIMEOUT_S)
    assert wire is not None
    return wire


@contextmanager
def one_per_shard(broker: BrokerProcess, login: LoginUser = ROOT) -> Iterator[Sequence[Wire]]:
    """Logged-in connections, one on each shard, by shard."""
    opened: list[Wire] = []
    found: dict[int, Wire] = {}
    shards = broker.workers()

    def has_all() -> bool:
        wire = Wire(broker, login=False)
        opened.append(wire)
        shard = shard_of_wire(broker, wire)
        if shard in found:
            wire.close()
        else:
            found[shard] = wire
            wire.ask(login)
        return len(found) == len(shards)

    try:
        # A shard that is being replaced gets none for a while.
        wait_for(has_all, CONNECT_TIMEOUT_S)
        yield [found[shard] for shard in sorted(found)]
    finally:
        for wire in opened:
            wire.close()


def shard_of_wire(broker: BrokerProcess, wire: Wire) -> int:
    """Which worker has accepted the connection, once that is one worker alone."""
    (shard,) = wait_for(lambda: _holders(broker, wire))
    return shard


def shard_of_connection(broker: BrokerProcess, wire: Wire) -> int | None:
    """The same at this moment, None if it is no worker or more than one."""
    holders = _holders(broker, wire)
    return holders[0] if holders else None


def _holders(broker: BrokerProcess, wire: Wire) -> list[int]:
    """The worker with a descriptor for the server's end; none while two of them have one."""
    inode = _server_inode(broker.port, wire.port)
    if inode is None:
        return []
    # While it moves from one to the other, both have it.
    found = [shard for shard, pid in broker.workers().items() if _holds_socket(pid, inode)]
    return found if len(found) == 1 else []


def _try_shard(broker: BrokerProcess, shard: int, login: bool) -> Wire | None:
    others: list[Wire] = []
    try:
        for _ in range(CONNECTIONS_MAX):
            # A login costs far more than a connection, so it waits until we know.
            wire = connect(broker, login=False)
            if shard_of_connection(broker, wire) == shard:
                if login:
                    wire.log_in()
                return wire
            others.append(wire)
    except Closed:
        # The worker died with our connection.
        return None
    finally:
        for other in others:
            other.close()
    return None


def _server_inode(server_port: int, client_port: int) -> str | None:
    with open("/proc/net/tcp", encoding="ascii") as table:
        next(table)
        for line in table:
            fields = line.split()
            local_port = int(fields[1].rpartition(":")[2], 16)
            remote_port = int(fields[2].rpartition(":")[2], 16)
            if (local_port, remote_port) == (server_port, client_port):
                return fields[9]
    return None


def _holds_socket(pid: int, inode: str) -> bool:
    wanted = f"socket:[{inode}]"
    directory = f"/proc/{pid}/fd"
    try:
        return any(_link(f"{directory}/{fd}") == wanted for fd in os.listdir(directory))
    except FileNotFoundError:
        return False


def _link(path: str) -> str:
    try:
        return os.readlink(path)
    except FileNotFoundError:
        return ""
