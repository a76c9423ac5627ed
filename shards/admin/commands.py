"""The broker's commands: `borzoi serve`, `check`, `compression`, `config`, ...; `iggy-server`.

Starts the nursery of the workers, reads the configuration meanwhile, then hands over to the
supervisor in the same process. What a command needs is imported when it runs: nothing must keep the
nursery waiting. Always: a configuration that cannot be used ends with exit code 1 and one line on
standard error. That line says what was found and what is needed.
"""

from __future__ import annotations

import json
import os
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

import borzoi
from borzoi.settings_hint import ServeCommand
from borzoi.shards.admin.config_option import config_option, load_named, strict_option
from borzoi.shards.nursery.process import NurseryProcess, start_nursery
from borzoi.terminal import VisibleErrors, VisibleGroup, in_json, json_option, say, say_json

if TYPE_CHECKING:
    from borzoi.shards.config import Config, ConfigError, Loaded

CONFIG_ERROR: Final = 1

Command = TypeVar("Command", bound=Callable[..., Any])


def serve_parameters(command: Command) -> Command:
    """The options that `borzoi serve` and `iggy-server` share."""
    for option in (
        click.option("--follower", is_flag=True, help="Report this node as a follower."),
        click.option(
            "--with-default-root-credentials",
            is_flag=True,
            help="Use iggy/iggy for root where the environment says nothing, and keep it where"
            " others can connect.",
        ),
        click.option("-f", "--fresh", is_flag=True, help="Delete all data before starting."),
        click.option(
            "-c",
            "--config-provider",
            default="file",
            show_default=True,
            help="Kept for compatibility; the file is the only provider.",
        ),
        strict_option,
        config_option,
    ):
        command = option(command)
    return command


@click.group(cls=VisibleGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(borzoi.__version__, "-V", "--version", prog_name="borzoi")
def main() -> None:
    """A message-streaming broker that serves Apache Iggy clients."""


@main.command(cls=ServeCommand)
@click.option(
    "--log-format",
    type=click.Choice(["text", "json"]),
    help="How log lines and the greeting look; instead of system.logging.json.",
)
@json_option
@serve_parameters
def serve(**parameters: Any) -> None:
    """Run the broker until SIGTERM, SIGINT or the end of its terminal.

    The exit code is 0 if everything acknowledged is on the disk, and 1 if the broker could not
    start or go on. It is 4 if a shard could not write or sync everything, and 5 if a shard was
    killed or died during the stop.
    """
    if in_json():
        parameters["log_format"] = "json"
    sys.exit(run_broker(shares_port=False, greets=True, **parameters))


@click.command(cls=VisibleErrors, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(borzoi.__version__, "-V", "--version", prog_name="iggy-server")
@serve_parameters
def iggy_server(**parameters: Any) -> None:
    """Run the broker: `borzoi serve` under the name that Iggy's tools look for.

    It shares its TCP port with others that ask for that, as Iggy's server does.
    """
    # Their test harness keeps the port bound until the server is ready. `borzoi serve` refuses: a
    # second broker, started by mistake, would get half of the connections unnoticed.
    sys.exit(run_broker(shares_port=True, **parameters))


@main.command("reset-root")
@config_option
@click.option("--generate", is_flag=True, help="Make a password up and print it.")
@json_option
def reset_root_command(config_path: Path | None, generate: bool) -> None:
    """Give the root user of a stopped broker a new password.

    It is taken from IGGY_ROOT_PASSWORD if that is set, asked for on a terminal, and read from the
    first line of standard input otherwise. It is never taken from the command line, which others
    can read.
    """
    loaded = load_or_exit(config_path)
    # Imported here: nothing else of the command line needs it.
    from borzoi.shards.admin.reset_root import check_new_password, reset_root
    from borzoi.shards.config import ConfigError
    from borzoi.shards.identity.root_account import (
        GENERATED_PREFIX,
        PASSWORD_VARIABLE,
        random_password,
    )

    try:
        if generate:
            password = random_password()
        elif loaded.environ.get(PASSWORD_VARIABLE):
            say(f"borzoi: taking the new password from {PASSWORD_VARIABLE}", err=True)
            password = loaded.environ[PASSWORD_VARIABLE]
        elif sys.stdin.isatty():
            password = click.prompt("New root password", hide_input=True, confirmation_prompt=True)
        else:
            password = sys.stdin.readline().removesuffix("\n")
        check_new_password(password)
        username = reset_root(loaded.config, password)
    except ConfigError as error:
        sys.exit(report(error))
    if in_json():
        made = {"password": password} if generate else {}
        say_json(json.dumps({"username": username, **made}))
        return
    say(f"borzoi: the root user {username!r} has a new password", err=True)
    if generate:
        say(f"{GENERATED_PREFIX}{password}")


@main.command("check")
@click.argument("directory", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--repair", is_flag=True, help="Mend what can be mended without losing anything.")
@click.option("--json", "json_wanted", is_flag=True, help="Report as JSON.")
@click.option(
    "--key-file",
    envvar="IGGY_SYSTEM_ENCRYPTION_KEY_FILE",
    default="",
    help="The encryption key, if metadata is encrypted; or IGGY_SYSTEM_ENCRYPTION_KEY.",
)
def check_command(directory: Path, repair: bool, json_wanted: bool, key_file: str) -> None:
    """Verify everything in the data DIRECTORY of a stopped broker.

    The exit code is 0 if all of it verifies, and 2 if --repair or the next start mends what is
    wrong. It is 3 if something is damaged. A repair rebuilds indexes, removes what a crash left
    over, and cuts torn writes off; it touches nothing that verifies.
    """
    # Imported here: nothing else of the command line needs it.
    from borzoi.shards.admin.check_data import check_data
    from borzoi.shards.admin.check_report import as_json, exit_code, text_lines
    from borzoi.shards.config import ConfigError
    from borzoi.shards.directory.key import configured_keys
    from borzoi.shards.settings.schema import Encryption
    from borzoi.storage.files import Files

    given = os.environ.get("IGGY_SYSTEM_ENCRYPTION_KEY", "")
    old = os.environ.get("IGGY_SYSTEM_ENCRYPTION_OLD_KEYS", "")
    try:
        keys = configured_keys(Encryption(key=given, key_file=key_file, old_keys=old))
        findings = check_data(directory, Files(), repair=repair, keys=keys)
    except ConfigError as error:
        sys.exit(report(error))
    if json_wanted or in_json():
        say_json(as_json(str(directory), findings))
    else:
        for line in text_lines(str(directory), findings):
            say(line)
    sys.exit(exit_code(findings))


@main.command("compression")
@click.argument("directory", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--json", "json_wanted", is_flag=True, help="Report as JSON.")
def compression_command(directory: Path, json_wanted: bool) -> None:
    """Show what compression saves, per topic of the data DIRECTORY, while a broker uses it or not.

    Sizes are those of the segments that are compressed; those that are not are only counted.
    """
    # Imported here: nothing else of the command line needs it.
    from borzoi.shards.config import ConfigError
    from borzoi.shards.directory.used_layout import layout_of
    from borzoi.storage.files import Files
    from borzoi.storage.ratio import ratio_lines, topic_ratios

    try:
        found = list(topic_ratios(layout_of(directory), Files()))
    except OSError as error:
        sys.exit(report(ConfigError(f"{directory} cannot be read: {error}")))
    if json_wanted or in_json():
        say_json(json.dumps([one.as_json() for one in found], indent=2))
    else:
        for line in ratio_lines(found):
            say(line)


@main.group()
def config() -> None:
    """Look at the configuration without starting anything."""


@config.command()
@json_option
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
def check(file: Path) -> None:
    """Check FILE strictly: unknown keys count as errors."""
    from borzoi.shards.config import check_file

    problems = check_file(file)
    if in_json():
        say_json(json.dumps({"file": str(file), "problems": problems}))
        sys.exit(CONFIG_ERROR if problems else 0)
    for problem in problems:
        about = problem if problem.startswith(f"{file} ") else f"{file}: {problem}"
        say(f"borzoi: {about}", err=True)
    if problems:
        sys.exit(CONFIG_ERROR)
    say(f"{file}: fine")


@config.command()
@json_option
def show() -> None:
    """Print the effective configuration as TOML, secrets masked."""
    from borzoi.shards.config import render_toml

    loaded = load_or_exit(None)
    for warning in loaded.warnings:
        say(f"borzoi: {warning}", err=True)
    if in_json():
        say_json(json.dumps(tomllib.loads(render_toml(loaded.config)), indent=2))
        return
    for line in render_toml(loaded.config).removesuffix("\n").split("\n"):
        say(line)


def run_broker(**parameters: Any) -> int:
    """The exit code of the broker, once it has stopped."""
    nursery = start_nursery()
    try:
        return _run_with(nursery, **parameters)
    finally:
        nursery.end()


def _run_with(
    nursery: NurseryProcess,
    *,
    config_path: Path | None,
    config_provider: str,
    fresh: bool,
    with_default_root_credentials: bool,
    follower: bool,
    strict: bool,
    shares_port: bool,
    greets: bool = False,
    log_format: str | None = None,
) -> int:
    loaded = load_or_exit(config_path, strict=strict)
    config = loaded.config if log_format is None else _with_log_format(loaded.config, log_format)
    warnings = loaded.warnings
    if config_provider != "file":
        warnings += (f"--config-provider {config_provider!r} is ignored: there is only the file",)
    # Imported here: `borzoi config` and `--help` need none of it.
    from borzoi.shards.config import ConfigError
    from borzoi.shards.directory.serve_options import ServeOptions
    from borzoi.shards.process.supervisor import run

    options = ServeOptions(
        fresh=fresh,
        default_root_credentials=with_default_root_credentials,
        follower=follower,
        shares_port=shares_port,
        greets=greets,
        sources=loaded.sources,
        environ=loaded.environ,
    )
    try:
        return run(config, warnings, options, nursery)
    except ConfigError as error:
        # CPUs, memory and the root account are looked at when the broker starts, not before.
        return report(error)


def _with_log_format(config: Config, log_format: str) -> Config:
    import msgspec

    lines = msgspec.structs.replace(config.system.logging, json=log_format == "json")
    system = msgspec.structs.replace(config.system, logging=lines)
    return msgspec.structs.replace(config, system=system)


def load_or_exit(config_path: Path | None, *, strict: bool = False) -> Loaded:
    """Returns the configuration; a mistake in it is printed and ends the process."""
    from borzoi.shards.config import ConfigError

    try:
        return load_named(config_path, strict=strict)
    except ConfigError as error:
        sys.exit(report(error))


def report(error: ConfigError) -> int:
    """Prints a mistake in the configuration; returns the exit code for it."""
    if click.get_current_context(silent=True) is not None and in_json():
        about = {"name": "ConfigError", "message": f"{error}", "problems": error.problems}
        say_json(json.dumps({"error": about}), err=True)
    else:
        for problem in error.problems:
            say(f"borzoi: {problem}", err=True)
    return CONFIG_ERROR
