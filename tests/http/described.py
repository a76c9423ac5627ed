"""The OpenAPI document of a running broker, held against the broker by schemathesis.

    python -m tests.http.described --examples 200 --seconds 600

schemathesis makes requests from the document, valid ones and ones with one thing wrong, and checks
the answers: no 5xx, only statuses, content types, headers and bodies that the document names,
nothing invalid accepted, no operation that ignores its token.

Not asked: the stream of events, which never ends, and the logout, which would end the token of all
that follow. What may switch off the account that asks comes last.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from tests.broker import HTTP, BrokerProcess
from tests.http_client import HttpClient
from tests.shard_wires import ONE_SHARD

LEFT_OUT: Final = "messages/stream|users/logout"
OWN_ACCOUNT: Final = r"^/users/\{user_id\}$"
PARTS: Final = (
    ("--exclude-path-regex", f"{LEFT_OUT}|{OWN_ACCOUNT}"),
    ("--include-path-regex", OWN_ACCOUNT),
)
SETTINGS: Final = """
# A request may fit the document and mean something that cannot be done: a name that is taken, a
# password that is wrong. Iggy's server answers so with 400, and the document says it.
[checks.positive_data_acceptance]
expected-statuses = ["2xx", "400", "401", "403", "404", "429"]
"""


def violations(folder: Path, *options: str) -> str:
    """What the runs complain of; nothing if the broker is as its document says."""
    settings = folder / "schemathesis.toml"
    settings.write_text(SETTINGS)
    broker = BrokerProcess(folder / "data", {**ONE_SHARD, **HTTP})
    broker.start()
    try:
        workers = broker.workers()
        token = HttpClient(broker).login().token
        found = "".join(_complaints(broker, token, settings, [*part, *options]) for part in PARTS)
        assert broker.workers() == workers, broker.output()
        assert "fault of ours" not in broker.output(), broker.output()
        return found
    finally:
        broker.close()


def _complaints(broker: BrokerProcess, token: str, settings: Path, options: list[str]) -> str:
    done = subprocess.run(
        [
            *(sys.executable, "-m", "schemathesis.cli", "--config-file", str(settings), "run"),
            f"http://{broker.http_address}/openapi.json",
            *("-H", f"Authorization: Bearer {token}"),
            *("--no-color", "--warnings", "off", "--suppress-health-check", "all"),
            "--continue-on-failure",
            *options,
        ],
        cwd=settings.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    said = done.stdout + done.stderr
    assert "Test cases:" in said, said
    print(said[said.index("SUMMARY") :])
    return said if done.returncode else ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--examples", type=int, default=200)
    parser.add_argument("--seconds", type=int, default=600)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        found = violations(
            Path(directory),
            *("--max-examples", str(options.examples), "--max-time", str(options.seconds)),
        )
    print(found or "0 violations")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
