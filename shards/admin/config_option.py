"""The option --config of the broker's commands: another TOML file than the environment names."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from borzoi.shards.config import Loaded

config_option = click.option(
    "--config",
    "config_path",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The TOML file, instead of the one IGGY_CONFIG_PATH names.",
)

strict_option = click.option(
    "--strict/--no-strict",
    default=False,
    envvar="BORZOI_STRICT",
    help="An unknown key or IGGY_ variable stops the start, instead of a warning.",
)


def load_named(config_path: Path | None, *, strict: bool = False) -> Loaded:
    """The configuration with this file, or with the one that is found; raises ConfigError."""
    # Imported here: it takes longer than the start of the nursery may wait (main.py).
    from borzoi.shards.config import load_config
    from borzoi.shards.config.loading import CONFIG_PATH

    environ = dict(os.environ)
    if config_path is not None:
        environ[CONFIG_PATH] = str(config_path.absolute())
    return load_config(environ, Path.cwd(), strict=strict)
