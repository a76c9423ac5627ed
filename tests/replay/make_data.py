"""Makes golden data: python -m tests.replay.make_data --broker CHECKOUT --into DIRECTORY.

The files in tests/golden are never made again from newer code: what once could be read has to stay
readable. Each holds data/ after a clean stop, archive/ as its archiver left it, and the raw token.
"""

import tarfile
import tempfile
import time
from pathlib import Path
from typing import Final

import click

from borzoi.terminal import say
from tests.broker import BrokerProcess
from tests.replay.written_data import VARIANTS, archiving_to, write

QUIET_S: Final = 3.0
PATIENCE_S: Final = 120.0
LEFT_OUT: Final = {"logs", "runtime"}


@click.command()
@click.option("--broker", "checkout", type=click.Path(path_type=Path, exists=True), required=True)
@click.option("--into", type=click.Path(path_type=Path, file_okay=False), required=True)
def make_data(checkout: Path, into: Path) -> None:
    """Let the broker of CHECKOUT write data and archives, and pack them."""
    for name, settings in VARIANTS.items():
        with tempfile.TemporaryDirectory(prefix="borzoi-data-") as directory:
            place = Path(directory)
            data, archive = place / "data", place / "archive"
            program = (str(checkout / ".venv" / "bin" / "borzoi"),)
            broker = BrokerProcess(data, {**settings, **archiving_to(archive)}, program=program)
            broker.start()
            try:
                (place / "token").write_text(write(broker))
                _wait_quiet(place)
                assert broker.stop() == 0
            finally:
                broker.close()
            path = into / f"written-{name}.tar.xz"
            with tarfile.open(path, "w:xz", preset=9) as packed:
                for part in ("data", "archive", "token"):
                    packed.add(place / part, part, filter=_anonymous)
            say(f"{path.name}: {path.stat().st_size} bytes")


def _wait_quiet(place: Path) -> None:
    """Returns when compression and archive have nothing left to do: no file changes any more."""
    deadline = time.monotonic() + PATIENCE_S
    before, since = None, time.monotonic()
    while time.monotonic() - since < QUIET_S:
        assert time.monotonic() < deadline, "the broker does not come to rest"
        now = sorted(str(path) for path in place.rglob("*") if "logs" not in path.parts)
        if now != before:
            before, since = now, time.monotonic()
        time.sleep(0.1)


def _anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Without the machine's users, and without what a broker says about itself."""
    if LEFT_OUT.intersection(Path(member.name).parts):
        return None
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


if __name__ == "__main__":
    make_data()
