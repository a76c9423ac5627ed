"""A real nats-server on loopback, which tests start, stop and kill."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest

from tests.broker import wait_for

UNPACKED: Final = Path(sys.prefix) / "nats-server/usr/sbin/nats-server"
"""Where ./borzoi puts it."""

NATS_SERVER: Final = shutil.which("nats-server") or (str(UNPACKED) if UNPACKED.exists() else None)

needs_nats = pytest.mark.skipif(
    NATS_SERVER is None,
    reason="nats-server is not there: `./borzoi test` fetches it with apt-get where there is one",
)


class NatsServer:
    """One server; a second start is where the first one was."""

    def __init__(self, folder: Path, config: str = "", *, scheme: str = "nats") -> None:
        self._folder = folder
        self._config = folder / "nats.conf"
        self._config.write_text(config)
        self._scheme = scheme
        self._process: subprocess.Popen[bytes] | None = None
        self.port = -1

    @property
    def url(self) -> str:
        return f"{self._scheme}://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start, and wait until it listens."""
        assert NATS_SERVER is not None
        with (self._folder / "nats.output").open("ab") as output:
            self._process = subprocess.Popen(
                [NATS_SERVER, *self._arguments()],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        process = self._process
        ports = self._folder / f"nats-server_{process.pid}.ports"
        found = wait_for(lambda: _read(ports) or process.poll() is not None)
        assert isinstance(found, dict), (self._folder / "nats.output").read_text()
        (url,) = found["nats"]
        self.port = int(url.rpartition(":")[2])

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def close(self) -> None:
        if self._process is not None:
            self.kill()

    def _arguments(self) -> Sequence[str]:
        place = ["-a", "127.0.0.1", "-p", str(self.port)]
        return [*place, "-c", str(self._config), "--ports_file_dir", str(self._folder)]

    def _end(self, how: signal.Signals) -> None:
        assert self._process is not None
        os.kill(self._process.pid, how)
        self._process.wait(30)
        self._process = None


def _read(ports: Path) -> dict[str, list[str]] | None:
    try:
        found: dict[str, list[str]] = json.loads(ports.read_text())
    except (FileNotFoundError, json.JSONDecodeError):
        return None
    return found
