"""Who logs in, and where: options, environment, contexts, kept tokens, locked-out logins."""

import json
import re
import stat
from pathlib import Path

import pytest

from tests.broker import BrokerProcess
from tests.first_hour.conftest import CommandLine

pytestmark = pytest.mark.slow

KEYRING = """
import json, os, pathlib
FILE = pathlib.Path(os.environ["FAKE_KEYRING"])
class Kept:
    priority = 1
def get_keyring():
    return Kept()
def _all():
    return json.loads(FILE.read_text()) if FILE.exists() else {}
def get_password(service, name):
    return _all().get(f"{service} {name}")
def set_password(service, name, text):
    FILE.write_text(json.dumps(_all() | {f"{service} {name}": text}))
def delete_password(service, name):
    FILE.write_text(json.dumps({n: t for n, t in _all().items() if n != f"{service} {name}"}))
"""


@pytest.fixture
def bare(shared_broker: BrokerProcess, tmp_path: Path) -> CommandLine:
    """Knows no server and no login."""
    return CommandLine("", tmp_path / "home")


@pytest.mark.parametrize(
    "options",
    [
        "--server {address} -u iggy -p iggy",
        "--server iggy://{address} --username iggy --password iggy",
        "--tcp-server-address {address} -u iggy -p iggy",
        "--transport tcp --tcp-server-address {address} -u iggy -p iggy",
        "--transport http --http-api-url http://{http} -u iggy -p iggy",
        "--transport websocket --websocket-server-address {websocket} -u iggy -p iggy",
    ],
)
def test_options_stand_before_the_verb(
    bare: CommandLine, shared_broker: BrokerProcess, options: str
) -> None:
    words = options.format(
        address=shared_broker.address,
        http=shared_broker.http_address,
        websocket=shared_broker.websocket_address,
    )
    assert json.loads(bare.says(*words.split(), "--json", "user", "list"))[0]["username"] == "iggy"


def test_options_behind_the_verb_win(cli: CommandLine) -> None:
    done = cli.run("--server", "127.0.0.1:1", "ping", "--server", cli.environ["BORZOI_SERVER"])
    assert done.returncode == 0


def test_a_login_on_the_command_line_wins_over_the_environment(cli: CommandLine) -> None:
    done = cli.run("-u", "iggy", "-p", "wrong", "me")
    assert b"refuses the login of iggy: wrong name or password" in done.stderr


def test_a_context_names_a_server(bare: CommandLine, shared_broker: BrokerProcess) -> None:
    server = f"iggy://{shared_broker.address}"
    bare.says("context", "create", "lab", "--server", server, "--username", "iggy")
    assert "context lab is in use" in bare.says("ctx", "u", "lab")
    assert "lab" in bare.says("context", "list")
    assert bare.run("me", BORZOI_PASSWORD="iggy").returncode == 0
    rows = json.loads(bare.says("--json", "context", "list"))
    assert rows[1] == {"name": "lab", "used": True, "server": server, "username": "iggy"}
    bare.says("context", "delete", "lab")
    assert [row["used"] for row in json.loads(bare.says("--json", "context", "list"))] == [True]


def test_a_login_is_kept_for_the_commands_that_follow(
    bare: CommandLine, shared_broker: BrokerProcess, tmp_path: Path
) -> None:
    server = ("--server", shared_broker.address)
    assert bare.run(*server, "me").returncode == 1
    bare.says(*server, "-u", "iggy", "-p", "iggy", "login", "1h")
    kept = tmp_path / "home" / "borzoi" / "tokens.json"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    bare.says(*server, "me")
    tokens = json.loads(bare.says(*server, "--json", "pat", "list"))
    assert [one["name"].startswith("borzoi-cli-") for one in tokens] == [True]
    root = (*server, "-u", "iggy", "-p", "iggy")
    bare.says(*root, "pat", "delete", tokens[0]["name"])
    refused = bare.run(*server, "me").stderr.decode()
    assert "refuses the login of the token that is kept (`borzoi login` makes a new one)" in refused
    bare.says(*root, "login", "1h")
    assert bare.says(*server, "logout") == "logged out\n"
    assert bare.run(*server, "me").returncode == 1
    left = json.loads(bare.says(*server, "-u", "iggy", "-p", "iggy", "--json", "pat", "list"))
    assert left == []


def test_a_keyring_is_used_where_there_is_one(
    bare: CommandLine, shared_broker: BrokerProcess, tmp_path: Path
) -> None:
    (tmp_path / "keyring.py").write_text(KEYRING)
    bare.environ |= {"PYTHONPATH": str(tmp_path), "FAKE_KEYRING": str(tmp_path / "kept")}
    server = ("--server", shared_broker.address)

    def said(*words: str) -> str:
        """As a process of its own: it imports another keyring than these tests do."""
        process = bare.start(*server, *words)
        output, error = process.communicate(timeout=60)
        assert process.returncode == 0, error.decode()
        return output.decode()

    assert "for 15 min; the token is in the keyring" in said("-u", "iggy", "-p", "iggy", "login")
    said("me")
    said("logout")
    assert (tmp_path / "kept").read_text() == "{}"


def test_a_token_is_kept_by_name(cli: CommandLine, shared_broker: BrokerProcess) -> None:
    assert "token nightly is in" in cli.says("pat", "create", "nightly", "--store-token")
    server = ("--server", shared_broker.address)
    del cli.environ["BORZOI_SERVER"]
    cli.says(*server, "-n", "nightly", "me")
    cli.says(*server, "-n", "nightly", "pat", "delete", "nightly")


def test_a_missing_permission_is_named(cli: CommandLine, shared_broker: BrokerProcess) -> None:
    cli.says("user", "create", "reader", "secret")
    done = cli.run("-u", "reader", "-p", "secret", "stream", "create", "mine")
    assert done.stderr.decode() == (
        "Error: 'reader' lacks the permission to create stream: needs one of manage_streams\n"
    )


def test_a_locked_out_login_says_how_long_to_wait(cli: CommandLine) -> None:
    cli.says("user", "create", "locked", "secret")
    # Each failure doubles the wait, so on any machine one of these comes before it is over.
    said = [cli.run("-u", "locked", "-p", "wrong", "me").stderr.decode() for _ in range(9)]
    assert "wrong name or password" in said[0]
    wait = r"too many failed logins of this name from here: wait [0-9.]+ s and try again"
    assert re.search(wait, "".join(said))
