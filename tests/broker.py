"""A real broker for tests: its processes, on port 0 and a temporary directory.

Every broker runs in a process group of its own, so that killing all of it needs no names, and is
stopped by process id.
"""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TypeVar

import psutil

START_TIMEOUT_S: Final = 60.0
STOP_TIMEOUT_S: Final = 60.0
NURSERY: Final = "nursery---"
SERVE: Final = "from borzoi.shards.admin.commands import main; main()"
FREE_PORTS: Final = {
    "IGGY_TCP_ADDRESS": "127.0.0.1:0",
    "IGGY_WEBSOCKET_ADDRESS": "127.0.0.1:0",
    "IGGY_HTTP_ADDRESS": "127.0.0.1:0",
    "IGGY_QUIC_ADDRESS": "127.0.0.1:0",
    # Its library is loaded and a certificate made at each start; a test that wants it says so.
    "IGGY_QUIC_ENABLED": "false",
    "IGGY_LIFTBRIDGE_ADDRESS": "127.0.0.1:0",
}
"""Every door of a test is at a port that the kernel chooses."""

QUIC: Final = {"IGGY_QUIC_ENABLED": "true"}
"""Settings of a broker that also serves QUIC."""

DOORS: Final = ("metrics", "websocket", "http", "quic", "liftbridge")
KEPT: Final = frozenset({"websocket", "http", "quic", "liftbridge"})
"""Doors beside TCP that a second start opens where the first one did, if a test knows them."""

HTTP_ADDRESS: Final = "IGGY_HTTP_ADDRESS"

PRESENT: Final = (sys.executable, "-c", SERVE)
"""The command line of the code under test."""

HTTP: Final = {"IGGY_HTTP_ENABLED": "true", "IGGY_HTTP_ADDRESS": "127.0.0.1:0"}
"""Settings of a broker that also serves HTTP."""

Found = TypeVar("Found")


class BrokerProcess:
    """One broker and its data directory. Start, stop and kill it as often as needed."""

    def __init__(
        self,
        data: Path,
        settings: Mapping[str, str] | None = None,
        *,
        wrapper: Sequence[str] = (),
        program: Sequence[str] = PRESENT,
    ) -> None:
        """`wrapper` is a command that executes the one behind it, with limits for example.

        `program` is the broker's command line; that of another checkout runs another version.
        """
        self.data = data
        self._command = (*wrapper, *program, "serve")
        self.settings = dict(settings or {})
        self.address = ""
        self._bound: dict[str, str] = {}
        self._known: set[str] = set()
        self.through: Callable[[socket.socket], socket.socket] | None = None
        """What a Wire makes of its socket, where the broker is not in clear text."""
        self._process: subprocess.Popen[bytes] | None = None
        self._output = data.parent / f"{data.name}.output"

    @property
    def pid(self) -> int:
        assert self._process is not None, "the broker is not running"
        return self._process.pid

    @property
    def host(self) -> str:
        return self.address.rpartition(":")[0]

    @property
    def port(self) -> int:
        return int(self.address.rpartition(":")[2])

    @property
    def metrics_address(self) -> str:
        return self.address_of("metrics")

    @property
    def websocket_address(self) -> str:
        return self.address_of("websocket")

    @property
    def http_address(self) -> str:
        return self.address_of("http")

    @property
    def quic_address(self) -> str:
        return self.address_of("quic")

    @property
    def liftbridge_address(self) -> str:
        return self.address_of("liftbridge")

    def address_of(self, door: str) -> str:
        """Where a door is; a second start opens it there again."""
        if door == "tcp":
            return self.address
        self._known.add(door)
        return self._bound.get(door, "")

    def _addresses(self) -> dict[str, str]:
        """Settings that bring a broker back where its clients know it to be.

        Other doors get new ports: while it is stopped another test may be given the old ones.
        """
        known = {door: self._bound.get(door) for door in self._known & KEPT}
        if HTTP_ADDRESS not in self.settings:
            known.pop("http", None)
        known["tcp"] = self.address
        return {f"IGGY_{door.upper()}_ADDRESS": at for door, at in known.items() if at}

    def start(self, *, pass_fds: Sequence[int] = ()) -> None:
        """Start and wait until every listener accepts."""
        assert self._process is None, "the broker runs already"
        ready = self.data / "runtime" / "current_config.toml"
        ready.unlink(missing_ok=True)
        kept = {name: text for name, text in os.environ.items() if not name.startswith("IGGY_")}
        addresses = self._addresses()
        environment = {
            **kept,
            "IGGY_SYSTEM_PATH": str(self.data),
            **FREE_PORTS,
            # Tests that have set a port to 0 mean the first start.
            **{name: at for name, at in addresses.items() if name != HTTP_ADDRESS},
            **self.settings,
            **{name: at for name, at in addresses.items() if name == HTTP_ADDRESS},
        }
        with self._output.open("ab") as output:
            self._process = subprocess.Popen(
                self._command,
                cwd=self.data.parent,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                pass_fds=pass_fds,
            )

        def is_ready() -> bool:
            assert self._process is not None
            if self._process.poll() is not None:
                code = self._process.returncode
                self._process = None
                raise AssertionError(f"the broker ended with {code}:\n{self.output()}")
            return ready.exists()

        wait_for(is_ready, START_TIMEOUT_S)
        bound = tomllib.loads(ready.read_text())
        self.address = bound["tcp"]["address"]
        self._bound = {door: bound[door]["address"] for door in DOORS}

    def stop(self) -> int:
        """Stop in an orderly way; the exit code."""
        process = self._process
        assert process is not None
        process.send_signal(signal.SIGTERM)
        try:
            code = process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise
        self._process = None
        return code

    def kill(self) -> None:
        """SIGKILL to the whole process group, and wait until all of it is gone."""
        process = self._process
        assert process is not None
        members = [process.pid, *self.workers().values()]
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(STOP_TIMEOUT_S)
        self._process = None
        wait_for(lambda: not any(_lives(pid) for pid in members), STOP_TIMEOUT_S)

    def close(self) -> None:
        """For fixtures: leave nothing behind, whatever the test did."""
        if self._process is not None:
            if self._process.poll() is None:
                self.kill()
            self._process = None

    def workers(self) -> dict[int, int]:
        """The process ids of the workers that live now, by shard."""
        found: dict[int, int] = {}
        try:
            for child in psutil.Process(self.pid).children():
                command = child.cmdline()
                if command and command[-1].startswith("shard-"):
                    found[int(command[-1].removeprefix("shard-"))] = child.pid
        except psutil.NoSuchProcess:
            pass
        return found

    def nursery(self) -> int:
        """The process id of the process that forks the workers."""
        found = self.find_nursery()
        assert found is not None, "there is no nursery"
        return found

    def find_nursery(self) -> int | None:
        """The same, None if there is none at the moment."""
        for child in psutil.Process(self.pid).children():
            try:
                if child.cmdline()[-1:] == [NURSERY]:
                    return int(child.pid)
            except psutil.NoSuchProcess:
                continue
        return None

    def output(self) -> str:
        """Everything the broker has said so far."""
        return self._output.read_text() if self._output.exists() else ""


@contextmanager
def standing(data: Path, settings: Mapping[str, str] | None = None) -> Iterator[BrokerProcess]:
    """A broker that several tests share; at the end it must be as healthy as at the beginning."""
    broker = BrokerProcess(data, settings)
    broker.start()
    workers = broker.workers()
    try:
        yield broker
        assert broker.workers() == workers, broker.output()
        assert broker.stop() == 0
        assert "fault of ours" not in broker.output(), broker.output()
    finally:
        broker.close()
    # Large messages were sent, and pytest keeps the directories of several runs.
    shutil.rmtree(broker.data)


def wait_for(condition: Callable[[], Found], timeout_s: float = 60.0) -> Found:
    """The first true answer of `condition`; AssertionError when the time is over.

    The time is for machines with much else to do. It costs something only where a test fails.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        found = condition()
        if found:
            return found
        assert time.monotonic() < deadline, f"not true within {timeout_s} s: {condition}"
        time.sleep(0.01)


def _lives(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
