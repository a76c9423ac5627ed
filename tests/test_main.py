"""`borzoi` offers the broker's commands and the client's, and loads only what is used."""

import subprocess
import sys

import pytest
from click.testing import CliRunner

import borzoi
from borzoi.main import CLIENT, SHORT, main
from borzoi.shards.admin.commands import main as broker

LOADED = (
    "import sys; from borzoi.main import main; main({arguments!r}, standalone_mode=False);"
    " print(*sorted(name for name in sys.modules if name.startswith('borzoi.')))"
)


def test_all_commands_are_listed() -> None:
    result = CliRunner().invoke(main, ["--help"])
    assert result.exit_code == 0
    for name in (*broker.commands, *CLIENT):
        assert f"\n  {name} " in result.stdout
    assert not set(broker.commands) & (set(CLIENT) | set(SHORT))


def test_short_names_stand_for_commands() -> None:
    assert set(SHORT.values()) <= set(CLIENT)
    for short, name in SHORT.items():
        result = CliRunner().invoke(main, [short, "--help"])
        assert result.exit_code == 0, name


@pytest.mark.parametrize("option", ["-V", "--version"])
def test_version(option: str) -> None:
    assert borzoi.__version__ in CliRunner().invoke(main, [option]).stdout


@pytest.mark.parametrize(
    ("command", "not_loaded"),
    [("serve", "borzoi.client"), ("ping", "borzoi.shards"), ("config", "borzoi.client")],
)
def test_only_what_is_used_is_loaded(command: str, not_loaded: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOADED.format(arguments=[command, "--help"])],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    loaded = done.stdout.splitlines()[-1].split()
    assert "borzoi.main" in loaded
    assert not [name for name in loaded if name.startswith(not_loaded)]


def test_as_a_module() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "borzoi", "--version"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout == f"borzoi, version {borzoi.__version__}\n"
