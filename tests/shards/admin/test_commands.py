"""The command line: options, exit codes, and what is said on standard error."""

import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest
from click.testing import CliRunner, Result

import borzoi
from borzoi.shards.admin import commands as command_line
from borzoi.shards.config import Config, ConfigError
from borzoi.shards.directory.serve_options import ServeOptions


class Supervisor(ModuleType):
    """Stands in for the real one: notes what it was called with."""

    def __init__(self) -> None:
        super().__init__("borzoi.shards.process.supervisor")
        self.calls: list[tuple[Config, tuple[str, ...], ServeOptions]] = []
        self.failure: ConfigError | None = None

    def run(
        self,
        config: Config,
        warnings: tuple[str, ...],
        options: ServeOptions,
        nursery: object,
    ) -> int:
        assert isinstance(nursery, Nursery)
        self.calls.append((config, warnings, options))
        if self.failure is not None:
            raise self.failure
        return 7


class Nursery:
    """Stands in for the process of the real one."""

    def __init__(self) -> None:
        self.ended = False

    def end(self) -> None:
        self.ended = True


@pytest.fixture
def nursery(monkeypatch: pytest.MonkeyPatch) -> Nursery:
    fake = Nursery()
    monkeypatch.setattr(command_line, "start_nursery", lambda: fake)
    return fake


@pytest.fixture
def supervisor(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, nursery: Nursery) -> Supervisor:
    fake = Supervisor()
    monkeypatch.setitem(sys.modules, "borzoi.shards.process.supervisor", fake)
    monkeypatch.chdir(tmp_path)
    return fake


def run(*arguments: str, **environ: str) -> Result:
    return CliRunner().invoke(command_line.main, arguments, env=environ)


def run_server(*arguments: str, **environ: str) -> Result:
    return CliRunner().invoke(command_line.iggy_server, arguments, env=environ)


def test_serve_hands_over_to_the_supervisor(supervisor: Supervisor) -> None:
    result = run("serve", IGGY_SYSTEM_PATH="here", RUST_LOG="debug")
    assert result.exit_code == 7
    ((config, warnings, options),) = supervisor.calls
    assert config.system.path == "here"
    assert warnings == ()
    assert (options.fresh, options.follower, options.default_root_credentials) == (False,) * 3
    assert not options.shares_port
    assert options.environ["RUST_LOG"] == "debug"


def test_iggy_server_is_serve_without_the_word(supervisor: Supervisor) -> None:
    result = run_server("-f", "--with-default-root-credentials", "--follower", "-c", "file")
    assert result.exit_code == 7
    ((_, warnings, options),) = supervisor.calls
    assert options.fresh
    assert options.follower
    assert options.shares_port
    assert options.default_root_credentials
    assert warnings == ()


def test_another_provider_is_a_warning(supervisor: Supervisor) -> None:
    run("serve", "--config-provider", "consul")
    assert "consul" in supervisor.calls[0][1][0]


def test_a_config_file_by_option(supervisor: Supervisor, tmp_path: Path) -> None:
    (tmp_path / "my.toml").write_text('[system]\npath = "mine"\n')
    assert run("serve", "--config", "my.toml").exit_code == 7
    assert supervisor.calls[0][0].system.path == "mine"
    assert run("serve", "--config", "gone.toml").exit_code == 2


def test_a_bad_setting_is_one_line_and_exit_code_1(supervisor: Supervisor) -> None:
    result = run("serve", IGGY_TCP_ENABLED="maybe")
    assert result.exit_code == 1
    assert result.stderr == (
        "borzoi: IGGY_TCP_ENABLED is 'maybe' (no boolean): needs true or false\n"
    )
    assert supervisor.calls == []


def test_what_the_supervisor_finds_is_reported_alike(
    supervisor: Supervisor, nursery: Nursery
) -> None:
    supervisor.failure = ConfigError("x is 1: needs 2")
    result = run("serve")
    assert nursery.ended
    assert result.exit_code == 1
    assert result.stderr == "borzoi: x is 1: needs 2\n"


def test_config_check(supervisor: Supervisor, tmp_path: Path) -> None:
    file = tmp_path / "my.toml"
    file.write_text("[tcp]\nenabled = true\n")
    result = run("config", "check", str(file))
    assert (result.exit_code, result.stderr) == (0, "")
    file.write_text("[tcp]\nenabld = true\n")
    result = run("config", "check", str(file))
    assert result.exit_code == 1
    assert "tcp.enabld" in result.stderr


def test_config_show(supervisor: Supervisor) -> None:
    result = run("config", "show", IGGY_SYSTEM_PATH="here", IGGY_NONSENSE="1")
    assert result.exit_code == 0
    assert tomllib.loads(result.stdout)["system"]["path"] == "here"
    assert result.stderr.count("\n") == 1
    assert "IGGY_NONSENSE" in result.stderr
    assert run("config", "show", IGGY_TCP_ENABLED="x").exit_code == 1


@pytest.mark.parametrize("option", ["-V", "--version"])
def test_versions(option: str) -> None:
    assert borzoi.__version__ in run(option).stdout
    assert borzoi.__version__ in run_server(option).stdout


@pytest.mark.parametrize("option", ["-h", "--help"])
def test_help(option: str) -> None:
    assert "serve" in run(option).stdout
    assert "--fresh" in run_server(option).stdout
