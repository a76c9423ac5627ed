"""Records sessions: python -m tests.replay.record --broker CHECKOUT [NAME...].

The files in tests/golden are never made again from newer code: what was once answered stays right.
A new session is recorded from a version whose answers are known, and gets a name of its own.
"""

import asyncio
import subprocess
from pathlib import Path
from types import ModuleType
from typing import Final

import click

from borzoi.terminal import say
from tests.broker import BrokerProcess
from tests.replay import official_script, own_script, raw_script
from tests.replay.brokers import running, session_file
from tests.replay.masks import without_machine
from tests.replay.proxy import Proxy
from tests.replay.session import Event, Session, answers, save_session

ENCRYPTED: Final = {
    "IGGY_SYSTEM_ENCRYPTION_ENABLED": "true",
    "IGGY_SYSTEM_ENCRYPTION_KEY": "A" * 43 + "=",
}
SCRIPTS: Final[dict[str, tuple[ModuleType, dict[str, str]]]] = {
    "official": (official_script, {}),
    "own": (own_script, {}),
    "encrypted": (own_script, ENCRYPTED),
    "raw": (raw_script, {}),
}
"""What runs, and which settings it adds to those of its script."""


@click.command()
@click.option("--broker", "checkout", type=click.Path(path_type=Path, exists=True), required=True)
@click.option("--into", type=click.Path(path_type=Path, file_okay=False), default=None)
@click.argument("names", nargs=-1, type=click.Choice(list(SCRIPTS)))
def record(checkout: Path, into: Path | None, names: tuple[str, ...]) -> None:
    """Run the scripts against the broker of CHECKOUT, and write down what was said."""
    commit = subprocess.check_output(("git", "-C", str(checkout), "rev-parse", "--short", "HEAD"))
    for name in names or SCRIPTS:
        script, added = SCRIPTS[name]
        path = session_file(name) if into is None else into / session_file(name).name
        session = Session({**script.SETTINGS, **added})
        session.remark = f"{name}, answered by borzoi {commit.decode().strip()}"
        with running(session.settings, checkout) as broker:
            session.events = asyncio.run(_events(broker, script))
        for place, code in answers(session):
            event = session.events[place]
            session.events[place] = event._replace(data=without_machine(code, event.data))
        save_session(session, path)
        say(f"{path.name}: {len(session.events)} events, {path.stat().st_size} bytes")


async def _events(broker: BrokerProcess, script: ModuleType) -> list[Event]:
    async with Proxy(broker.host, broker.port).listening() as proxy:
        await script.run(proxy)
    return proxy.events


if __name__ == "__main__":
    record()
