"""A broker for recording or replaying: of this checkout or of another one."""

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.broker import PRESENT, BrokerProcess

GOLDEN = Path(__file__).parent.parent / "golden"


@contextmanager
def running(
    settings: Mapping[str, str], checkout: Path | None = None, shards: int = 1
) -> Iterator[BrokerProcess]:
    """A started broker. It must stop in order and without a complaint about itself."""
    program = PRESENT if checkout is None else (str(checkout / ".venv" / "bin" / "borzoi"),)
    with tempfile.TemporaryDirectory(prefix="borzoi-replay-") as directory:
        allocation = {"IGGY_SYSTEM_SHARDING_CPU_ALLOCATION": str(shards)}
        data = Path(directory) / "data"
        broker = BrokerProcess(data, {**allocation, **settings}, program=program)
        broker.start()
        try:
            yield broker
            assert broker.stop() == 0, broker.output()
            assert "fault of ours" not in broker.output(), broker.output()
        finally:
            broker.close()


def session_file(name: str) -> Path:
    """Where the session of a script lies."""
    return GOLDEN / f"session-{name}.xz"
