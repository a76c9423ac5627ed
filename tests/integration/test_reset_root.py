"""The way back in when the root password is lost: only while no broker runs, never by argument."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from borzoi.protocol.commands.sessions import LoginUser
from borzoi.protocol.commands.streams import CreateStream, GetStreams
from borzoi.protocol.commands.users import ChangePassword, GetUser, UpdateUser
from borzoi.protocol.errors import InvalidCredentials
from borzoi.protocol.permissions import UserStatus
from tests.broker import SERVE, BrokerProcess
from tests.conftest import NewBroker
from tests.integration.launching import environment
from tests.integration.test_root_at_boot import GENERATED, login
from tests.shard_wires import ONE_SHARD
from tests.wire import Wire

pytestmark = pytest.mark.slow


def reset(
    data: Path, *arguments: str, stdin: str = "", **settings: str
) -> subprocess.CompletedProcess[str]:
    """`borzoi reset-root` with these arguments, on that data directory."""
    return subprocess.run(
        [sys.executable, "-c", SERVE, "reset-root", *arguments],
        cwd=data.parent,
        env=environment(data, settings),
        input=stdin,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def everything_written(broker: BrokerProcess) -> bytes:
    files = [path for path in broker.data.rglob("*") if path.is_file()]
    return b"".join(path.read_bytes() for path in files) + broker.output().encode()


def test_a_new_password_for_a_stopped_broker(new_broker: NewBroker) -> None:
    broker = new_broker(**ONE_SHARD, IGGY_TCP_ADDRESS="0.0.0.0:0")
    (generated,) = GENERATED.findall(broker.output())
    wire = Wire(broker, login=False)
    wire.ask(LoginUser("iggy", generated))
    wire.ask(CreateStream("kept"))
    # Locked out for good: inactive, under another name, the password forgotten.
    wire.ask(UpdateUser(0, "boss", UserStatus.INACTIVE))

    running = reset(broker.data, stdin="marker of the new password\n")
    assert running.returncode == 1
    assert "another broker uses it" in running.stderr
    broker.kill()

    made = reset(broker.data, "--generate", "--json")
    assert json.loads(made.stdout).keys() == {"username", "password"}
    done = reset(broker.data, stdin="marker of the new password\n")
    assert done.returncode == 0, done.stderr
    assert "the root user 'boss' has a new password" in done.stderr
    assert not (broker.data / "root_password").exists()
    broker.start()
    assert login(broker, "boss", "marker of the new password") == 0
    assert login(broker, "boss", generated) == InvalidCredentials.status
    wire = Wire(broker, login=False)
    wire.ask(LoginUser("boss", "marker of the new password"))
    assert wire.ask(GetUser(0)).user.status == UserStatus.ACTIVE
    assert [stream.name for stream in wire.ask(GetStreams())] == ["kept"]
    said = "".join(run.stdout + run.stderr for run in (running, done)).encode()
    assert b"marker of" not in everything_written(broker) + said


def test_the_kept_password_goes_with_the_first_change(new_broker: NewBroker) -> None:
    broker = new_broker(**ONE_SHARD, IGGY_TCP_ADDRESS="0.0.0.0:0")
    kept = broker.data / "root_password"
    password = kept.read_text().strip()
    wire = Wire(broker, login=False)
    wire.ask(LoginUser("iggy", password))
    assert wire.status(ChangePassword(0, "wrong", "new password")) == InvalidCredentials.status
    assert kept.exists()
    wire.ask(ChangePassword(0, password, "new password"))
    assert not kept.exists()
    assert login(broker, "iggy", "new password") == 0
