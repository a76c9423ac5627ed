"""Who may log in after a first boot, and that later boots change nothing about it."""

import re
import stat
from pathlib import Path

import pytest

from borzoi.protocol.commands.sessions import LoginUser
from borzoi.protocol.errors import InvalidCredentials
from tests.broker import BrokerProcess
from tests.conftest import NewBroker
from tests.integration.launching import run_to_its_end
from tests.shard_wires import ONE_SHARD
from tests.wire import Wire

GENERATED = re.compile(r"^Generated root user password: ([A-Za-z0-9]{20,39})$", re.MULTILINE)

pytestmark = pytest.mark.slow


def login(broker: BrokerProcess, username: str, password: str) -> int:
    wire = Wire(broker, login=False)
    status = wire.status(LoginUser(username, password))
    wire.close()
    return status


def test_credentials_of_the_environment(new_broker: NewBroker) -> None:
    credentials = {"IGGY_ROOT_USERNAME": "boss", "IGGY_ROOT_PASSWORD": "secret of the boss"}
    broker = new_broker(**ONE_SHARD, **credentials)
    assert login(broker, "boss", "secret of the boss") == 0
    assert login(broker, "iggy", "iggy") == InvalidCredentials.status
    broker.stop()
    # The account exists now; whatever the environment says later is too late.
    broker.settings |= {"IGGY_ROOT_USERNAME": "other", "IGGY_ROOT_PASSWORD": "other"}
    broker.start()
    assert login(broker, "boss", "secret of the boss") == 0
    assert login(broker, "other", "other") == InvalidCredentials.status
    assert "secret of the boss" not in broker.output()


@pytest.mark.parametrize("name", ["IGGY_ROOT_USERNAME", "IGGY_ROOT_PASSWORD"])
def test_half_of_the_credentials(tmp_path: Path, name: str) -> None:
    done = run_to_its_end(tmp_path / "data", **{name: "iggy"})
    assert done.returncode == 1
    assert f"{name} is set" in done.stderr


def test_on_loopback_the_default_is_known(new_broker: NewBroker) -> None:
    broker = new_broker(**ONE_SHARD)
    assert login(broker, "iggy", "iggy") == 0
    assert "the root account is iggy/iggy" in broker.output()
    assert not GENERATED.search(broker.output())


def test_elsewhere_a_password_is_made_up_and_said_once(new_broker: NewBroker) -> None:
    broker = new_broker(**ONE_SHARD, IGGY_TCP_ADDRESS="0.0.0.0:0")
    (password,) = GENERATED.findall(broker.output())
    kept = broker.data / "root_password"
    assert kept.read_text() == password + "\n"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert login(broker, "iggy", password) == 0
    assert login(broker, "iggy", "iggy") == InvalidCredentials.status
    # The log file may be handed to others, so the password is not in it.
    assert password not in (broker.data / "logs" / "iggy-server.log").read_text()
    broker.stop()
    broker.start()
    assert GENERATED.findall(broker.output()) == [password]
    assert login(broker, "iggy", password) == 0
