"""One broker for the whole folder, and its command line: in this process, or as one of its own."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from click.testing import CliRunner

from borzoi.main import main
from tests.broker import BrokerProcess, standing
from tests.shard_wires import ONE_SHARD

PROGRAM_NAME: Final = "borzoi"
PROGRAM: Final = (sys.executable, "-c", "from borzoi.main import main; main(prog_name='borzoi')")


class CommandLine:
    """`borzoi` with the address of a broker, and with a home of its own."""

    def __init__(self, server: str, home: Path) -> None:
        self.environ = {
            name: text
            for name, text in os.environ.items()
            if not name.startswith(("BORZOI_", "IGGY_"))
        } | {"XDG_CONFIG_HOME": str(home), "COLUMNS": "100"}
        if server:
            self.environ["BORZOI_SERVER"] = server

    def run(
        self, *words: str, stdin: bytes = b"", **environ: str
    ) -> subprocess.CompletedProcess[bytes]:
        """Runs to the end, in this process: an interpreter takes longer than most commands."""
        kept = self.environ | environ
        gone = dict.fromkeys(os.environ.keys() - kept.keys())
        ran = CliRunner().invoke(
            main, words, input=stdin, env={**gone, **kept}, prog_name=PROGRAM_NAME
        )
        if ran.exception is not None and not isinstance(ran.exception, SystemExit):
            raise ran.exception
        return subprocess.CompletedProcess(words, ran.exit_code, ran.stdout_bytes, ran.stderr_bytes)

    def says(self, *words: str, stdin: bytes = b"") -> str:
        """What it prints; it must succeed."""
        done = self.run(*words, stdin=stdin)
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode()

    def start(self, *words: str, **options: int) -> subprocess.Popen[bytes]:
        """Begins a command with pipes, in a process group of its own."""
        return subprocess.Popen(
            [*PROGRAM, *words],
            env=self.environ,
            stdin=options.get("stdin", subprocess.PIPE),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )


@pytest.fixture(scope="package")
def shared_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """One shard, stopped at the end."""
    with standing(tmp_path_factory.mktemp("first_hour") / "data", ONE_SHARD) as broker:
        yield broker


@pytest.fixture
def cli(shared_broker: BrokerProcess, tmp_path: Path) -> CommandLine:
    """Logs in as root by its address."""
    return CommandLine(f"iggy://iggy:iggy@{shared_broker.address}", tmp_path / "home")


@pytest.fixture(scope="package")
def stocked(shared_broker: BrokerProcess, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The stream `depot` with the topic `events` of two partitions, and its messages."""
    address = f"iggy://iggy:iggy@{shared_broker.address}"
    cli = CommandLine(address, tmp_path_factory.mktemp("home"))
    cli.says("stream", "create", "depot")
    cli.says("topic", "create", "depot", "events", "2")
    cli.says("message", "send", "depot", "events", "-p", "0", "one", "two")
    return "depot"
