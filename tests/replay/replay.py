"""Replays sessions: python -m tests.replay.replay [--broker CHECKOUT] [--shards N] [FILE...]."""

import sys
from pathlib import Path

import click

from borzoi.terminal import say
from tests.replay.brokers import GOLDEN, running
from tests.replay.doors import plain
from tests.replay.player import Player
from tests.replay.session import load_session


@click.command()
@click.option("--broker", "checkout", type=click.Path(path_type=Path, exists=True), default=None)
@click.option("--shards", type=int, default=1)
@click.option("--setting", "settings", multiple=True, help="NAME=VALUE of the environment.")
@click.argument("files", nargs=-1, type=click.Path(path_type=Path, exists=True))
def replay(
    checkout: Path | None, shards: int, settings: tuple[str, ...], files: tuple[Path, ...]
) -> None:
    """Compare the answers of this code, or of CHECKOUT, with the recorded ones."""
    failed = False
    for path in files or sorted(GOLDEN.glob("session-*.xz")):
        session = load_session(path)
        own = dict(setting.split("=", 1) for setting in settings)
        with running({**session.settings, **own}, checkout, shards) as broker:
            player = Player(plain(broker))
            differences = player.play(session)
        failed = failed or bool(differences)
        say(f"{path.name}: {player.answers_count} answers, {len(differences)} differences")
        for difference in differences:
            say(f"  {difference}")
    sys.exit(failed)


if __name__ == "__main__":
    replay()
