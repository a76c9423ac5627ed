"""`borzoi encryption status`, `rotate`, `forget`: their words. What they do is in actions.py."""

from pathlib import Path

import click

from borzoi.shards.admin.config_option import config_option
from borzoi.terminal import VisibleGroup, json_option


@click.group(cls=VisibleGroup, context_settings={"help_option_names": ["-h", "--help"]})
def encryption() -> None:
    """Which encryption keys there are, and what needs them; exchange the key."""


@encryption.command()
@config_option
@json_option
def status(config_path: Path | None) -> None:
    """Show how many segments and metadata entries need each key, while a broker runs or not."""
    from borzoi.shards.keys import actions

    actions.status(config_path)


@encryption.command()
@config_option
@click.option("--again", is_flag=True, help="Although an earlier exchange is not over.")
@json_option
def rotate(config_path: Path | None, again: bool) -> None:
    """Exchange the key: make a new one, and have everything encrypted with it.

    The new key becomes the first line of the key file, unless a new one stands there already. A
    broker that runs takes it at once; one that is stopped takes it when it is started. What was
    encrypted before is encrypted once more in the background. Until then the old key is needed.
    """
    from borzoi.shards.keys import actions

    actions.rotate(config_path, again)


@encryption.command()
@config_option
@click.option("--yes", is_flag=True, help="Remove them. What only they open is lost then.")
@json_option
def forget(config_path: Path | None, yes: bool) -> None:
    """Remove the keys from the key file that nothing in the data directory needs any more."""
    from borzoi.shards.keys import actions

    actions.forget(config_path, yes)
