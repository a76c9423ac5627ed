"""A node's copy of a log whose messages are numbers; what its checkpoints and packs look like."""

import struct
from collections.abc import Callable, Iterable
from typing import NamedTuple

import msgspec

from borzoi.cluster.keys import Checkpoint
from borzoi.cluster.slots import DataSlot, Entry, EntryKind
from tests.cluster.history import History


class Piece(NamedTuple):
    """Which messages a pack has."""

    pack: Checkpoint
    first: int
    count_of: int

    @property
    def end(self) -> int:
        return self.first + self.count_of


class State(NamedTuple):
    """What a checkpoint says."""

    length: int
    dropped: int
    pieces: tuple[Piece, ...]


def batch(offset: int, messages: list[int]) -> Entry:
    """An entry with these messages."""
    return Entry(EntryKind.BATCH, first=offset, number=len(messages), body=_packed(messages))


def messages_in(body: bytes | memoryview) -> list[int]:
    """The messages of a batch or of a pack."""
    return list(struct.unpack(f"<{len(body) // 8}Q", body))


def read_state(body: bytes) -> State:
    return msgspec.json.decode(body, type=State)


class Copy:
    """The log as one node knows it: the machine's Replay, and what its checkpoints are made of."""

    def __init__(self, history: History) -> None:
        self._history = history
        self.length = 0
        self.dropped = 0
        self.pieces: tuple[Piece, ...] = ()
        self.tail: list[int] = []

    def begin(self, checkpoint: Checkpoint | None, body: bytes) -> frozenset[Checkpoint]:
        state = State(0, 0, ()) if checkpoint is None else read_state(body)
        self.length, self.dropped, self.pieces = state
        self.tail = []
        return self._packs()

    def apply(self, data: DataSlot) -> bool:
        batches = [entry for entry in data.entries if entry.kind is EntryKind.BATCH]
        if batches and batches[0].first != self.length:
            return False
        self.take(data.entries)
        return True

    def take(self, entries: Iterable[Entry]) -> None:
        """What follows: batches in order of offsets, and what ends older ones."""
        for entry in entries:
            if entry.kind is EntryKind.DROPPED:
                self.dropped = max(self.dropped, entry.first)
                continue
            if entry.first != self.length:
                self._history.wrong(f"lost: offset {entry.first} follows {self.length}")
            for message in messages_in(entry.body):
                self._history.seen(message, self.length)
                self.tail.append(message)
                self.length += 1

    def checkpoint(self, name: Checkpoint) -> tuple[bytes, bytes, frozenset[Checkpoint]]:
        """The bytes of a checkpoint and of its pack; the packs it names."""
        first = self.length - len(self.tail)
        kept = self.tail[max(0, self.dropped - first) :]
        pieces = [piece for piece in self.pieces if piece.end > self.dropped]
        if kept:
            pieces.append(Piece(name, self.length - len(kept), len(kept)))
        self.pieces, self.tail = tuple(pieces), []
        state = State(self.length, self.dropped, self.pieces)
        return msgspec.json.encode(state), _packed(kept), self._packs()

    def whole(self, read_pack: Callable[[Checkpoint], bytes | None]) -> dict[int, int]:
        """Every message that is not dropped, by offset, packs included; without what is missing."""
        log = dict(enumerate(self.tail, self.length - len(self.tail)))
        for piece in self.pieces:
            body = read_pack(piece.pack)
            if body is not None:
                log.update(enumerate(messages_in(body), piece.first))
        return {offset: message for offset, message in log.items() if offset >= self.dropped}

    def _packs(self) -> frozenset[Checkpoint]:
        return frozenset(piece.pack for piece in self.pieces)


def _packed(messages: list[int]) -> bytes:
    return struct.pack(f"<{len(messages)}Q", *messages)
