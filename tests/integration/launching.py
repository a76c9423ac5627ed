"""Starting the broker's programs with arguments, and starts that are meant to fail."""

import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.broker import FREE_PORTS, SERVE, START_TIMEOUT_S, STOP_TIMEOUT_S, BrokerProcess, wait_for

IGGY_SERVER: Final = Path(sys.executable).with_name("iggy-server")


def environment(data: Path, settings: Mapping[str, str]) -> dict[str, str]:
    """Ours without any IGGY_ variables, plus these."""
    kept = {name: text for name, text in os.environ.items() if not name.startswith("IGGY_")}
    return {**kept, "IGGY_SYSTEM_PATH": str(data), **FREE_PORTS, **settings}


def run_to_its_end(data: Path, **settings: str) -> subprocess.CompletedProcess[str]:
    """A broker that ends by itself: exit code and output."""
    return subprocess.run(
        [sys.executable, "-c", SERVE, "serve"],
        cwd=data.parent,
        env=environment(data, settings),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=START_TIMEOUT_S,
        check=False,
    )


def ask_iggy_server(*arguments: str) -> str:
    """What `iggy-server` prints for arguments that start nothing."""
    done = subprocess.run(
        [IGGY_SERVER, *arguments], capture_output=True, text=True, timeout=30, check=True
    )
    return done.stdout


@contextmanager
def iggy_server(data: Path, *arguments: str, **settings: str) -> Iterator[BrokerProcess]:
    """A broker started as `iggy-server` with these arguments. It is stopped at the end."""
    ready = data / "runtime" / "current_config.toml"
    ready.unlink(missing_ok=True)
    log = data.parent / f"{data.name}.output"
    with log.open("ab") as output:
        process = subprocess.Popen(
            [IGGY_SERVER, *arguments],
            cwd=data.parent,
            env=environment(data, settings),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        wait_for(lambda: process.poll() is not None or ready.exists(), START_TIMEOUT_S)
        assert process.poll() is None, log.read_text()
        server = RunningServer(data, process.pid)
        server.address = tomllib.loads(ready.read_text())["tcp"]["address"]
        yield server
    finally:
        process.terminate()
        assert process.wait(STOP_TIMEOUT_S) == 0, log.read_text()


class RunningServer(BrokerProcess):
    """A broker that was started outside of the test."""

    def __init__(self, data: Path, pid: int) -> None:
        super().__init__(data)
        self._pid = pid

    @property
    def pid(self) -> int:
        return self._pid
