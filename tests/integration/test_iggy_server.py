"""The program under the name that Iggy's own tools look for, with the arguments they know."""

import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import borzoi
from borzoi.protocol.commands.sessions import LoginUser
from borzoi.protocol.commands.streams import CreateStream, GetStreams
from borzoi.protocol.commands.system import GetClusterMetadata, GetStats
from borzoi.protocol.responses.cluster import NodeRole
from tests.broker import START_TIMEOUT_S
from tests.integration.launching import (
    IGGY_SERVER,
    ask_iggy_server,
    environment,
    iggy_server,
    run_to_its_end,
)
from tests.shard_wires import ONE_SHARD
from tests.wire import Wire

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("argument", ["-h", "--help"])
def test_help_names_every_argument(argument: str) -> None:
    text = ask_iggy_server(argument)
    for option in ("--config-provider", "--fresh", "--with-default-root-credentials", "--follower"):
        assert option in text


@pytest.mark.parametrize("argument", ["-V", "--version"])
def test_version(argument: str) -> None:
    assert ask_iggy_server(argument).strip() == f"iggy-server, version {borzoi.__version__}"


def test_the_process_that_was_started_is_the_broker(tmp_path: Path) -> None:
    """No wrapper: signals to the spawned process reach the supervisor itself."""
    assert IGGY_SERVER.is_file()
    with iggy_server(tmp_path / "data") as server:
        assert server.workers()
        wire = Wire(server)
        assert wire.ask(GetStats()).process_id == server.pid
        wire.close()


def test_default_root_credentials_also_where_others_can_connect(tmp_path: Path) -> None:
    with iggy_server(
        tmp_path / "data",
        "--with-default-root-credentials",
        **ONE_SHARD,
        IGGY_TCP_ADDRESS="0.0.0.0:0",
    ) as server:
        wire = Wire(server, login=False)
        wire.ask(LoginUser("iggy", "iggy"))
        wire.close()
        assert "Generated root user password" not in server.output()


def test_fresh_forgets_everything(tmp_path: Path) -> None:
    data = tmp_path / "data"
    for arguments in ((), ("--fresh",)):
        with iggy_server(data, *arguments, **ONE_SHARD) as server:
            wire = Wire(server)
            assert wire.ask(GetStreams()) == ()
            wire.ask(CreateStream("stream"))
            wire.close()


def test_follower(tmp_path: Path) -> None:
    with iggy_server(tmp_path / "data", "--follower", **ONE_SHARD) as server:
        wire = Wire(server)
        (node,) = wire.ask(GetClusterMetadata()).nodes
        assert node.role == NodeRole.FOLLOWER
        wire.close()


@pytest.fixture(params=["bound", "listening"])
def held_port(request: pytest.FixtureRequest) -> Iterator[socket.socket]:
    """A port that others hold and share; the official test harness does it in the second way."""
    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if request.param == "listening":
            held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
        if request.param == "listening":
            held.listen(1)
        yield held


def test_it_shares_its_port_with_the_harness_that_holds_it(
    tmp_path: Path, held_port: socket.socket
) -> None:
    """Until the server is ready."""
    address = f"127.0.0.1:{held_port.getsockname()[1]}"
    with iggy_server(tmp_path / "data", **ONE_SHARD, IGGY_TCP_ADDRESS=address) as server:
        assert server.address == address
        held_port.close()
        wire = Wire(server)
        assert wire.ask(GetStats()).process_id == server.pid
        wire.close()


def test_the_lock_keeps_a_second_one_out(tmp_path: Path) -> None:
    with iggy_server(tmp_path / "data", **ONE_SHARD) as server:
        second = subprocess.run(
            [IGGY_SERVER],
            cwd=tmp_path,
            env=environment(tmp_path / "data", {"IGGY_TCP_ADDRESS": server.address}),
            capture_output=True,
            text=True,
            timeout=START_TIMEOUT_S,
            check=False,
        )
        assert second.returncode == 1
        assert "another broker uses it" in second.stderr


def test_borzoi_serve_does_not_share_its_port(tmp_path: Path, held_port: socket.socket) -> None:
    address = f"127.0.0.1:{held_port.getsockname()[1]}"
    ended = run_to_its_end(tmp_path / "data", **ONE_SHARD, IGGY_TCP_ADDRESS=address)
    assert ended.returncode == 1
    assert f"cannot listen on {address}" in ended.stderr
