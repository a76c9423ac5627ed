"""A broker of our own: started for a bench, stopped and removed after it.

It is started as a program, on port 0 and with a temporary data directory; nothing of it is
imported. Runs in a process group of its own and is ended by process id. Closing removes the data.
That also spares the disk most of what was written: pages that were not written back yet are dropped
with their file.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Self

import psutil

from borzoi.bench.admin import Admin
from borzoi.bench.plans import HTTP_JSON, QUIC, Credentials

START_TIMEOUT_S: Final = 60.0
STOP_TIMEOUT_S: Final = 30.0
LOOK_INTERVAL_S: Final = 0.02
SERVE: Final = "from borzoi.shards.admin.commands import main; main()"
LOOPS_SAID: Final = re.compile(r"\b(compiled|plain) loops")
UNKNOWN_LOOPS: Final = "unknown"
CREDENTIALS: Final = Credentials("iggy", "iggy")
DOORS: Final = {
    "tcp": "tcp",
    "tls": "tcp",
    "ws": "websocket",
    "wss": "websocket",
    QUIC: "quic",
    "http": "http",
    HTTP_JSON: "http",
}
"""The table of the configuration that a transport belongs to."""

SETTINGS: Final = {
    "tls": {"IGGY_TCP_TLS_ENABLED": "true"},
    "wss": {"IGGY_WEBSOCKET_TLS_ENABLED": "true"},
    QUIC: {"IGGY_QUIC_ENABLED": "true"},
    "http": {"IGGY_HTTP_ENABLED": "true"},
    HTTP_JSON: {"IGGY_HTTP_ENABLED": "true"},
}


class BrokerFailed(Exception):
    """Our own broker did not start; the text holds what it said."""


class OwnBroker:
    """One broker process with its workers."""

    def __init__(
        self,
        cpu_allocation: str,
        settings: Mapping[str, str] | None = None,
        directory: Path | None = None,
        *,
        transport: str = "tcp",
    ) -> None:
        """`transport`: which door the load comes through; it is open, and encrypted if need be."""
        self.transport = transport
        self.directory = Path(tempfile.mkdtemp(prefix="borzoi-bench-", dir=directory))
        self.data = self.directory / "data"
        self._output = self.directory / "output"
        kept = {name: text for name, text in os.environ.items() if not name.startswith("IGGY_")}
        environment = {
            **kept,
            "IGGY_SYSTEM_PATH": str(self.data),
            "IGGY_TCP_ADDRESS": "127.0.0.1:0",
            "IGGY_HTTP_ENABLED": "false",
            "IGGY_QUIC_ENABLED": "false",
            "IGGY_HTTP_ADDRESS": "127.0.0.1:0",
            "IGGY_QUIC_ADDRESS": "127.0.0.1:0",
            "IGGY_WEBSOCKET_ADDRESS": "127.0.0.1:0",
            **SETTINGS.get(transport, {}),
            "IGGY_SYSTEM_SHARDING_CPU_ALLOCATION": cpu_allocation,
            "IGGY_ROOT_USERNAME": CREDENTIALS.username,
            "IGGY_ROOT_PASSWORD": CREDENTIALS.password,
            **(settings or {}),
        }
        with self._output.open("wb") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-c", SERVE, "serve"],
                cwd=self.directory,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        try:
            doors = self._wait_until_ready()
        except BaseException:
            self.close()
            raise
        self.host, self.port = doors[DOORS[transport]]
        # Orders go through a door without TLS, whatever the load goes through.
        self.order_transport = "ws" if transport == "tls" else "tcp"
        self.order_port = doors[DOORS[self.order_transport]][1]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def pid(self) -> int:
        """The id of the supervisor's process."""
        return self._process.pid

    @property
    def credentials(self) -> Credentials:
        """The root user of this broker."""
        return CREDENTIALS

    def workers(self) -> dict[int, int]:
        """The process ids of the workers, by shard."""
        return workers_of(self.pid)

    @property
    def loops(self) -> str:
        """Which loops over messages it says it runs: compiled, plain, or unknown."""
        found = LOOPS_SAID.search(self.output())
        return found[1] if found else UNKNOWN_LOOPS

    def output(self) -> str:
        """Everything the broker has said so far."""
        return self._output.read_text(errors="replace") if self._output.exists() else ""

    def close(self) -> None:
        """Stop the broker and remove its data."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                os.killpg(self._process.pid, signal.SIGKILL)
                self._process.wait(STOP_TIMEOUT_S)
        shutil.rmtree(self.directory, ignore_errors=True)

    @property
    def ca_file(self) -> str:
        """Who vouches for the door: the certificate that it has made for itself."""
        if self.transport not in ("tls", "wss"):
            return ""
        return str(self.data / "runtime" / f"{DOORS[self.transport]}_certificate.pem")

    def orders(self) -> Admin:
        """A connection for questions and orders, logged in."""
        return Admin.connect(self.host, self.order_port, CREDENTIALS, self.order_transport)

    def _wait_until_ready(self) -> dict[str, tuple[str, int]]:
        ready = self.data / "runtime" / "current_config.toml"
        deadline = time.monotonic() + START_TIMEOUT_S
        while not ready.exists():
            code = self._process.poll()
            if code is not None:
                raise BrokerFailed(f"the broker ended with {code}:\n{self.output()}")
            if time.monotonic() > deadline:
                raise BrokerFailed(f"the broker is not ready in time:\n{self.output()}")
            time.sleep(LOOK_INTERVAL_S)
        config = tomllib.loads(ready.read_text())
        found = {}
        for door in set(DOORS.values()):
            host, _, port = config[door]["address"].rpartition(":")
            found[door] = (host, int(port))
        return found


def workers_of(supervisor_pid: int) -> dict[int, int]:
    """The worker processes of a borzoi supervisor, by shard; empty for any other process."""
    found: dict[int, int] = {}
    try:
        for child in psutil.Process(supervisor_pid).children():
            command = child.cmdline()
            if command and command[-1].startswith("shard-"):
                found[int(command[-1].removeprefix("shard-"))] = child.pid
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return {}
    return found
