"""Room for the stored offsets of a partition: shared by user, and apart from that of groups.

A consumer is any number a client makes up, so the offsets of consumers are bounded, and shared by
the rule of shares.py. A user that invents thousands leaves room to the others. Groups are made by
users that may, and exist in the metadata; they have as much room again, which no consumer takes.

Which user made which offset is noted beside them, so that a restart does not forget it:

    offsets/users    consumer u32 | user u32 | XXH32 of both u32, little-endian, one note after
                     the other; the last one of a consumer counts

The notes are a hint. They are not synced, and where they are lost, cut short or damaged the offset
counts as made by an unknown user. Owned by the owner of the partition, like the offsets.

Always: every consumer that has an offset holds one place, in the name of one user.
"""

import os
import struct
from collections.abc import Iterable
from typing import Final

import xxhash

from borzoi.protocol.errors import CannotOpenConsumerOffsetsFile
from borzoi.protocol.identifiers import ConsumerKind
from borzoi.shares import ShareFigures, Shares, user_taker
from borzoi.storage.files import Files
from borzoi.storage.layout import OFFSETS_DIRECTORY

NOTE: Final = struct.Struct("<III")  # consumer, user, checksum
NOTED: Final = struct.Struct("<II")  # what the checksum is of
NOTES_PART: Final = 4
"""The file is rewritten when it has so many times more notes than there is room for offsets."""

UNKNOWN: Final = "an unknown user"


def notes_path(directory: str) -> str:
    """Where the notes of a partition are."""
    return os.path.join(directory, OFFSETS_DIRECTORY, "users")


def encode_note(consumer: int, user: int) -> bytes:
    """One note."""
    return NOTE.pack(consumer, user, xxhash.xxh32_intdigest(NOTED.pack(consumer, user)))


def read_notes(data: bytes) -> tuple[dict[int, int], int]:
    """The user of each consumer, and how many notes are damaged or cut short."""
    whole = len(data) // NOTE.size
    damaged = int(len(data) % NOTE.size > 0)
    users = {}
    for consumer, user, checksum in NOTE.iter_unpack(data[: whole * NOTE.size]):
        if checksum == xxhash.xxh32_intdigest(NOTED.pack(consumer, user)):
            users[consumer] = user
        else:
            damaged += 1
    return users, damaged


class OffsetRoom:
    """Which user has made the offsets of one partition."""

    def __init__(
        self, directory: str, files: Files, consumers_max: int, share_weight: int = 1
    ) -> None:
        """`consumers_max` holds for consumers, and again for groups."""
        self._directory = directory
        self._path = notes_path(directory)
        self._files = files
        self._consumers_max = consumers_max
        self._shares = Shares(f"stored offsets of {directory}", consumers_max, share_weight)
        self._takers: dict[int, str] = {}
        self._groups: set[int] = set()
        self._users: dict[int, int] = {}  # of those whose note is in the file, or due
        self.due: list[int] = []
        """Consumers whose note is not in the file yet; until `write`."""
        self._notes_count = 0

    def load(self, consumers: Iterable[tuple[ConsumerKind, int]]) -> None:
        """Take in the offsets that are there, each in the name of the user that made it."""
        data = self._files.read_whole(self._path) or b""
        self._notes_count = len(data) // NOTE.size
        noted, _ = read_notes(data)
        for kind, id in consumers:
            if kind is ConsumerKind.GROUP:
                self._groups.add(id)
                continue
            user = noted.get(id)
            if user is not None:
                self._users[id] = user
            self._place(id, UNKNOWN if user is None else user_taker(user))

    def admit(self, kind: ConsumerKind, id: int, user: int) -> None:
        """One more offset, made by a user; an error if there is no room for it."""
        if kind is ConsumerKind.GROUP:
            if len(self._groups) >= self._consumers_max:
                raise CannotOpenConsumerOffsetsFile(
                    f"{self._directory}: {len(self._groups)} groups have offsets here already"
                )
            self._groups.add(id)
            return
        taker = user_taker(user)
        if not self._shares.allows(taker, 1):
            self._shares.note_refusal(taker, 1)
            raise CannotOpenConsumerOffsetsFile(
                f"{self._directory}: {taker} has {self._shares.held(taker)} offsets here, and "
                f"{self._shares.taken} of {self._consumers_max} places are taken"
            )
        self._place(id, taker)
        self._users[id] = user
        self.due.append(id)

    def forget(self, kind: ConsumerKind, id: int) -> None:
        """The offset is gone; its place is free."""
        if kind is ConsumerKind.GROUP:
            self._groups.discard(id)
            return
        taker = self._takers.pop(id, None)
        if taker is not None:
            self._shares.give_back(taker, 1)
            self._users.pop(id, None)

    def write(self) -> None:
        """Bring the notes that are due to the file: with the kernel when it returns. OSError."""
        if not self.due:
            return
        due = [(id, self._users[id]) for id in self.due if id in self._users]
        if self._notes_count + len(due) > NOTES_PART * self._consumers_max:
            self._replace(self._users.items())
        else:
            self._append(due)
        self.due.clear()

    def figures(self) -> ShareFigures:
        """How full it is, of consumers."""
        return self._shares.figures()

    def _place(self, id: int, taker: str) -> None:
        self._takers[id] = taker
        self._shares.take_anyway(taker, 1)

    def _append(self, notes: Iterable[tuple[int, int]]) -> None:
        data = b"".join(encode_note(*note) for note in notes)
        self._files.makedirs(os.path.dirname(self._path))
        fd = self._files.open(self._path, os.O_WRONLY | os.O_CREAT)
        try:
            self._files.write_all(fd, [data], self._notes_count * NOTE.size)
        finally:
            self._files.close(fd)
        self._notes_count += len(data) // NOTE.size

    def _replace(self, notes: Iterable[tuple[int, int]]) -> None:
        data = b"".join(encode_note(*note) for note in sorted(notes))
        self._files.replace(self._path, data, durable=False)
        self._notes_count = len(data) // NOTE.size
