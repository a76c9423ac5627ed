"""A room of shards/ is small enough to be read at once."""

from pathlib import Path
from typing import Final

from tests.tidy.repository import ROOT

ROOM_LINES_MAX: Final = 1_500


def lines_of(room: Path) -> int:
    """The lines of all its modules, comments and empty ones too."""
    modules = [path for path in room.rglob("*") if path.suffix in (".py", ".pyx")]
    return sum(len(path.read_text().splitlines()) for path in modules)


def test_no_room_is_larger_than_one_reading() -> None:
    rooms = {path.parent.name: lines_of(path.parent) for path in ROOT.glob("shards/*/__init__.py")}
    assert len(rooms) > 20
    assert {room for room, lines in rooms.items() if lines > ROOM_LINES_MAX} == set()
