"""A recorded session as a file: xz over one line of text per event, in the order of the wire.

# text                 a remark: where the session comes from
setting NAME VALUE     of the broker's environment
3 open                 connection 3 is made
3 > HEX                its client writes these bytes
3 < HEX                one whole answer: status, length, payload
3 eof                  the client closes its side, and the broker has closed its own
3 closed               the broker closes the connection by itself
"""

import lzma
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from tests.replay.cutting import RequestCutter


class Kind(StrEnum):
    OPEN = "open"
    WRITTEN = ">"
    ANSWER = "<"
    EOF = "eof"
    CLOSED = "closed"


class Event(NamedTuple):
    """One step of one connection."""

    connection: int
    kind: Kind
    data: bytes = b""


@dataclass
class Session:
    """Events in the order in which they happened, and how the broker was started."""

    settings: Mapping[str, str]
    remark: str = ""
    events: list[Event] = field(default_factory=list)


def save_session(session: Session, path: Path) -> None:
    """Write the file; equal sessions give equal bytes."""
    text = "".join(f"{line}\n" for line in _lines(session))
    path.write_bytes(lzma.compress(text.encode(), preset=9))


def load_session(path: Path) -> Session:
    session = Session({})
    settings: dict[str, str] = {}
    for line in lzma.decompress(path.read_bytes()).decode().splitlines():
        if line.startswith("#"):
            session.remark = line.removeprefix("# ")
        elif line.startswith("setting "):
            _, name, value = line.split(" ", 2)
            settings[name] = value
        else:
            number, kind, *data = line.split(" ")
            event = Event(int(number), Kind(kind), bytes.fromhex(data[0]) if data else b"")
            session.events.append(event)
    session.settings = settings
    return session


def answers(session: Session) -> Iterator[tuple[int, int]]:
    """The place of every answer among the events, and the code of its request."""
    cutters: defaultdict[int, RequestCutter] = defaultdict(RequestCutter)
    asked: defaultdict[int, deque[int]] = defaultdict(deque)
    for place, event in enumerate(session.events):
        if event.kind is Kind.WRITTEN:
            requests = cutters[event.connection].cut(event.data)
            asked[event.connection].extend(request.code for request in requests)
        elif event.kind is Kind.ANSWER and asked[event.connection]:
            yield place, asked[event.connection].popleft()


def _lines(session: Session) -> Iterable[str]:
    yield f"# {session.remark}"
    for name, value in session.settings.items():
        yield f"setting {name} {value}"
    for event in session.events:
        words = [str(event.connection), event.kind, event.data.hex()]
        yield " ".join(word for word in words if word)
