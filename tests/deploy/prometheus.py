"""A real Prometheus on loopback, and its tools; ./borzoi unpacks Debian's package."""

import json
import shutil
import subprocess
import sys
import urllib.parse
import urllib.request
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

import pytest

from tests.broker import wait_for

UNPACKED: Final = Path(sys.prefix) / "prometheus/usr/bin"
"""Where ./borzoi puts it."""


def _found(name: str) -> str | None:
    return shutil.which(name) or (str(UNPACKED / name) if (UNPACKED / name).exists() else None)


PROMETHEUS: Final = _found("prometheus")
PROMTOOL: Final = _found("promtool")

needs_prometheus = pytest.mark.skipif(
    PROMETHEUS is None or PROMTOOL is None,
    reason="prometheus is not there: `./borzoi test` fetches it with apt-get where there is one",
)


def promtool(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    assert PROMTOOL is not None
    command = [PROMTOOL, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


class Prometheus:
    """One server that scrapes one broker every second; its port is free when it is chosen."""

    def __init__(self, folder: Path, config: Path, port: int) -> None:
        assert PROMETHEUS is not None
        self._output = folder / "prometheus.output"
        self._url = f"http://127.0.0.1:{port}"
        with self._output.open("wb") as output:
            self._process = subprocess.Popen(
                [
                    PROMETHEUS,
                    f"--config.file={config}",
                    f"--storage.tsdb.path={folder / 'tsdb'}",
                    f"--web.listen-address=127.0.0.1:{port}",
                ],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=folder,
            )

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(60)

    def get(self, path: str, **query: str) -> Any:
        """The data of an answer of its API, None as long as it does not answer."""
        assert self._process.poll() is None, self._output.read_text()
        url = f"{self._url}/api/v1/{path}?{urllib.parse.urlencode(query)}"
        try:
            with urllib.request.urlopen(url, timeout=60) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            if error.code == HTTPStatus.SERVICE_UNAVAILABLE:
                return None  # it starts
            raise AssertionError(f"{path} {query}: {error.read().decode()}") from error
        except OSError:
            return None

    def value(self, query: str) -> float | None:
        """The sum of what a query finds now, None if it finds nothing."""
        found = self.get("query", query=query)
        if not found or not found["result"]:
            return None
        return sum(float(one["value"][1]) for one in found["result"])

    def wait_for_value(self, query: str) -> float:
        """The first value that a query finds."""
        found = wait_for(lambda: [value] if (value := self.value(query)) is not None else None)
        assert found is not None
        return found[0]
