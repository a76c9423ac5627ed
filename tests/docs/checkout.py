"""A directory that looks like a fresh clone, and the broker that a reader starts in it.

Everything in it is a link, so `./borzoi` is the real launcher and data lies in a directory of the
test's own. The broker listens on port 0; where a page says 127.0.0.1:8090, or :3000 for
HTTP, the real address is put in.
"""

import os
import signal
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Final

from tests.broker import FREE_PORTS, wait_for
from tests.clients.wheels import WHEELS, need
from tests.tidy.repository import LEFT_OUT, ROOT

WRITTEN_ADDRESS: Final = "127.0.0.1:8090"
WRITTEN_HTTP_ADDRESS: Final = "127.0.0.1:3000"
SERVE: Final = "./borzoi serve"
TIMEOUT_S: Final = 120.0
INSTALL_TIMEOUT_S: Final = 600.0
# Papers speak of its newest version. It may abort when Python ends, after its last line:
# docs/CLIENTS.md.
OFFICIAL_CLIENT: Final = "apache_iggy"
LEAVE_AT_ONCE: Final = "\nimport os, sys\nsys.stdout.flush()\nos._exit(0)\n"


class Checkout:
    """A clone, its environment, and at most one broker."""

    def __init__(self, directory: Path) -> None:
        self.root = directory / "clone"
        self.root.mkdir()
        for entry in ROOT.iterdir():
            if entry.name not in LEFT_OUT:
                (self.root / entry.name).symlink_to(entry)
        (self.root / ".venv").symlink_to(sys.prefix)
        if not (Path(sys.prefix) / "borzoi-test-stamp").exists():
            # Not an environment of the launcher, which would make one of its own now.
            (self.root / "borzoi").unlink()
            (self.root / "borzoi").write_text(f'#!/bin/sh\nexec {sys.executable} -m borzoi "$@"\n')
            (self.root / "borzoi").chmod(0o755)
        kept = {
            name: text
            for name, text in os.environ.items()
            if not name.startswith(("IGGY_", "BORZOI_", "PYTEST_", "COV_"))
        }
        self._environment = {**kept, "BORZOI_VENV": sys.prefix}
        self._broker: subprocess.Popen[bytes] | None = None
        self._address = WRITTEN_ADDRESS
        self._http_address = WRITTEN_HTTP_ADDRESS
        # Installs, if what the environment was made from has changed since.
        self._run(["./borzoi", "--version"], timeout_s=INSTALL_TIMEOUT_S)

    def shell(self, script: str) -> str:
        """Run commands as one script; what they print."""
        return self._run(["bash", "-euo", "pipefail", "-c", self._with_address(script)])

    def python(self, source: str) -> str:
        """Run a program with the Python of these tests; what it prints."""
        source = self._with_address(source)
        if OFFICIAL_CLIENT in source:
            need(WHEELS[-1])
            source = f"import sys\nsys.path.insert(0, {str(WHEELS[-1].directory)!r})\n{source}"
            source += LEAVE_AT_ONCE
        return self._run([sys.executable, "-c", source])

    def serve(self) -> None:
        """Start the broker, unless it runs already, and wait until it accepts."""
        if self._broker is not None:
            return
        ready = self.root / "local_data/runtime/current_config.toml"
        ready.unlink(missing_ok=True)
        with (self.root / "serve.output").open("wb") as output:
            broker = self._broker = subprocess.Popen(
                SERVE.split(),
                cwd=self.root,
                env={**self._environment, **FREE_PORTS},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

        def is_ready() -> bool:
            said = (self.root / "serve.output").read_text()
            assert broker.poll() is None, f"the broker ended with {broker.returncode}:\n{said}"
            return ready.exists()

        wait_for(is_ready)
        bound = tomllib.loads(ready.read_text())
        self._address, self._http_address = bound["tcp"]["address"], bound["http"]["address"]
        self._environment["BORZOI_SERVER"] = f"iggy://iggy:iggy@{self._address}"

    def stop(self) -> int | None:
        """Stop the broker in order; its exit code, None if none was started."""
        broker, self._broker = self._broker, None
        if broker is None:
            return None
        broker.send_signal(signal.SIGTERM)
        try:
            return broker.wait(60)
        except subprocess.TimeoutExpired:
            os.killpg(broker.pid, signal.SIGKILL)
            broker.wait()
            raise

    def _with_address(self, text: str) -> str:
        text = text.replace(WRITTEN_ADDRESS, self._address)
        return text.replace(WRITTEN_HTTP_ADDRESS, self._http_address)

    def _run(self, command: list[str], timeout_s: float = TIMEOUT_S) -> str:
        done = subprocess.run(
            command,
            cwd=self.root,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout_s,
        )
        said = done.stdout + done.stderr
        assert done.returncode == 0, f"{command[-1]}\nended with {done.returncode}:\n{said}"
        return said
