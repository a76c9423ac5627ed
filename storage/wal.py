"""The metadata write-ahead log: one file of checksummed entries, and how they are read.

One entry, little-endian, no padding:

     0  index            u64   1 for the first entry ever, then always one more
     8  term             u64   0 while there is one node
    16  timestamp        u64   microseconds since 1970
    24  user_id          u32   who asked for it
    28  flags            u32   belong to the command's format, see its decoder
    32  command_length   u32   at most COMMAND_SIZE_MAX
    36  command          command_length bytes, opaque here
     .  sha256           32    over all bytes of the entry before it

The file begins with entry 1, or later. Behind a snapshot it may have been shortened. That is done
by putting another file in its place, also while readers have the old one open (docs/adr/0001). A
byte position therefore means something only together with the index of the file's first entry.

Index 0 means "nothing committed yet", so the index of an entry can serve as a birth and 0 as "no
birth".

The WalWriter (wal_writer.py) owns the file: it alone writes, in one process at a time. All other
processes read, and only up to an end position the writer's process has published; below that end
no byte ever changes.

Always: entries follow each other without gaps and their indexes rise by one.
"""

import hashlib
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from borzoi.storage.files import Files, Path

HEADER: Final = struct.Struct("<QQQIII")
CHECKSUM_SIZE: Final = 32
COMMAND_SIZE_MAX: Final = 1 << 20
ENTRY_SIZE_MIN: Final = HEADER.size + CHECKSUM_SIZE
ENTRY_SIZE_MAX: Final = ENTRY_SIZE_MIN + COMMAND_SIZE_MAX

# A window always holds the entry it starts with as a whole.
WINDOW_SIZE: Final = 2 * ENTRY_SIZE_MAX
INDEX: Final = struct.Struct("<Q")


@dataclass(frozen=True, slots=True)
class WalEntry:
    """One committed command, with its user and time."""

    index: int
    term: int
    timestamp: int
    user_id: int
    flags: int
    command: bytes


@dataclass(frozen=True, slots=True)
class EntryPlace:
    """A place between two entries: its byte position, and the entry before it (0 for none)."""

    index: int
    position: int


class PublishedLog(NamedTuple):
    """What the writer tells its readers: where the log ends, and in which file.

    A shorter file that takes the place of a longer one begins with a later entry, so `first` names
    the file. An entry that lay at position p of a file with base b may still be there. Then it lies
    at p + b - base of this one.
    """

    last_index: int  # of the last committed entry, 0 for none
    position: int  # behind it, in this file
    first: int  # index of the file's first entry
    base: int  # bytes that were cut off in front of the file since the broker was started


NOTHING_PUBLISHED: Final = PublishedLog(0, 0, 0, 0)


START: Final = EntryPlace(0, 0)


class InvalidEntry(Exception):
    """The bytes at a position are not a whole, unharmed entry."""


class WalDamaged(Exception):
    """The log cannot be trusted beyond a position, and cutting it there would lose commands."""


class Unreadable(WalDamaged):
    """Damage that could also be an entry its writer did not finish."""

    def __init__(self, text: str, reason: str) -> None:
        super().__init__(text)
        self.reason = reason


def encode_entry(entry: WalEntry) -> bytes:
    """The bytes of one entry. A command over COMMAND_SIZE_MAX is a ValueError."""
    if len(entry.command) > COMMAND_SIZE_MAX:
        raise ValueError(f"a command of {len(entry.command)} bytes, {COMMAND_SIZE_MAX} is the most")
    header = HEADER.pack(
        entry.index, entry.term, entry.timestamp, entry.user_id, entry.flags, len(entry.command)
    )
    content = header + entry.command
    return content + hashlib.sha256(content).digest()


def decode_entry(view: memoryview, position: int, end: int) -> tuple[WalEntry, int]:
    """The entry at `position` and where the next one starts. Looks at nothing from `end` on."""
    if end - position < ENTRY_SIZE_MIN:
        raise InvalidEntry(f"{end - position} bytes are left of at least {ENTRY_SIZE_MIN}")
    index, term, timestamp, user_id, flags, length = HEADER.unpack_from(view, position)
    # Before the length is used for anything: it may be any number.
    if length > COMMAND_SIZE_MAX:
        raise InvalidEntry(
            f"they announce a command of {length} bytes, {COMMAND_SIZE_MAX} is the most"
        )
    command_start = position + HEADER.size
    command_end = command_start + length
    next_position = command_end + CHECKSUM_SIZE
    if next_position > end:
        raise InvalidEntry(f"only {end - position} of {next_position - position} bytes are there")
    if hashlib.sha256(view[position:command_end]).digest() != view[command_end:next_position]:
        raise InvalidEntry("the SHA-256 does not match")
    command = bytes(view[command_start:command_end])
    return WalEntry(index, term, timestamp, user_id, flags, command), next_position


def read_entries(
    files: Files, fd: int, start: EntryPlace, end_position: int, *, name: Path
) -> Iterator[tuple[WalEntry, int]]:
    """The entries from `start` up to `end_position`, each with the position behind it.

    Both must lie between entries, as the writer published or noted them. Bytes from
    `end_position` on are never looked at: they may still change. Every checksum and every index
    is checked; WalDamaged otherwise. `name` is only for that error's text.
    """
    index, position = start.index, start.position
    while position < end_position:
        window_start = position
        window = memoryview(
            files.pread(fd, min(WINDOW_SIZE, end_position - position), window_start)
        )
        window_end = window_start + len(window)
        while position < window_end:
            try:
                entry, behind = decode_entry(window, position - window_start, len(window))
            except InvalidEntry as error:
                if position > window_start and window_end < end_position:
                    break  # The window cuts this entry: read on from where it starts.
                reason = f"{_index_found(window, position - window_start)}, but {error}"
                raise Unreadable(damage_text(name, position, index + 1, reason), reason) from error
            if entry.index != index + 1:
                # Whole and unharmed, so no torn write: the order itself is broken.
                found = f"there is entry {entry.index} instead"
                raise WalDamaged(damage_text(name, position, index + 1, found))
            index = entry.index
            position = window_start + behind
            yield entry, position
        if not window:
            raise WalDamaged(
                damage_text(name, position, index + 1, f"the file ends here, not at {end_position}")
            )


def log_start(files: Files, path: Path) -> EntryPlace:
    """The place before the first entry of this log. START if there is none, or none that is whole.

    For that the caller need not know where the log ends: the first entry is always committed.
    """
    try:
        fd = files.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return START
    try:
        return start_of(files, fd)
    finally:
        files.close(fd)


def start_of(files: Files, fd: int) -> EntryPlace:
    """As log_start, of a log that is open."""
    begin = files.pread(fd, ENTRY_SIZE_MAX, 0)
    try:
        entry, _ = decode_entry(memoryview(begin), 0, len(begin))
    except InvalidEntry:
        return START
    return EntryPlace(entry.index - 1, 0)


def place_behind(files: Files, fd: int, index: int, *, name: Path) -> EntryPlace:
    """The place behind the entry of this index, found by reading the log from its start.

    All entries up to it must be committed; what follows is not looked at. WalDamaged if it is not
    there.
    """
    start = start_of(files, fd)
    if start.index == index:
        return start
    size = files.size(fd)
    for entry, position in read_entries(files, fd, start, size, name=name):
        if entry.index == index:
            return EntryPlace(index, position)
    raise WalDamaged(damage_text(name, size, index, "the file ends here"))


def _index_found(window: memoryview, start: int) -> str:
    if len(window) - start < INDEX.size:
        return "the file ends here"
    return f"the bytes there say index {INDEX.unpack_from(window, start)[0]}"


def damage_text(path: Path, position: int, expected_index: int, what: str) -> str:
    """The sentence about a log that is left as it is, and what an operator can do."""
    return (
        f"{os.fspath(path)} is damaged at byte {position}, where entry {expected_index} should be:"
        f" {what}."
        " Nothing was changed. Keep a copy of the file, then restore it from a backup, or cut it to"
        f" {position} bytes to go on without entry {expected_index} and everything behind it."
    )
