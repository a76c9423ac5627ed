"""The two files of a segment as a reader sees them: through windows, read-only.

Nothing here touches a byte it has not seen to exist. A file is looked at (one stat) whenever
more of it is needed than was seen before; a name that leads to another file by then is Stale,
and the reader starts again.
"""

import os
import struct
from bisect import bisect_left
from collections.abc import Sequence
from typing import Final

from borzoi.protocol.batch import (
    INDEX_ENTRY_SIZE,
    MESSAGE_HEADER_SIZE,
    SENT_FIELDS,
    first_at_or_after,
)
from borzoi.protocol.errors import CannotDecryptData
from borzoi.storage.block_index import BlockDamaged
from borzoi.storage.codecs import Codec
from borzoi.storage.compressed_file import CompressedFile, MissingBlocks
from borzoi.storage.encrypted import CannotOpenSegment, PartitionCipher, SegmentCipher
from borzoi.storage.files import FileIdentity, Files
from borzoi.storage.index_windows import IndexWindows
from borzoi.storage.layout import index_path, stored_log_path
from borzoi.storage.mapped import MappedWindow, WindowCache
from borzoi.storage.outcome import Cold
from borzoi.storage.plain_blocks import PlainBlocks
from borzoi.storage.segment_form import HEADER_SIZE, PLAIN, SegmentForm, form_of, seal_place

POSITION: Final = struct.Struct("<4xI8x")
TIMESTAMP: Final = struct.Struct("<8xQ")
HEADER_TIMESTAMP: Final = struct.Struct("<32xQ")  # in a message of the log


class Stale(Exception):
    """The files are not the ones the reader knew, or not what was published.

    `segment`: whose index may be to blame if looking again does not help. `replaced`: the file that
    has another one in its place, if that is all.
    """

    def __init__(
        self, text: str, segment: int | None = None, *, replaced: str | None = None
    ) -> None:
        super().__init__(text)
        self.segment = segment
        self.replaced = replaced


class ReadOnlyFiles:
    """How segment views reach the disk. Notes when a name was followed to a file."""

    def __init__(
        self,
        files: Files,
        windows: WindowCache,
        index_windows: IndexWindows,
        blocks: PlainBlocks,
        cipher: PartitionCipher | None = None,
    ) -> None:
        self.files = files
        self.cipher = cipher
        self.windows = windows
        self.index_windows = index_windows
        self.blocks = blocks
        # The reader clears it when it knows that the files found belong to the right birth.
        self.found_unconfirmed = False

    def note_found(self) -> None:
        """A file was found by its name; the birth of its partition is not confirmed yet."""
        self.found_unconfirmed = True


class MappedFile:
    """One file by name: which inode it is, and how long it was when last looked at.

    Always: nothing is handed out that lies behind the length seen; asking for it raises Stale.
    """

    def __init__(self, path: str, access: ReadOnlyFiles, windows: WindowCache) -> None:
        self.path = path
        self._access = access
        self._windows = windows
        self._identity: FileIdentity | None = None
        self._size_seen = 0

    def size(self, size_wanted: int) -> int:
        """How much of the file may be touched; looks again only if it is less than wanted."""
        if self._size_seen < size_wanted or self._identity is None:
            status = self._access.files.status_of(self.path)
            if self._identity is None:
                self._identity = status.identity
                self._access.found_unconfirmed = True
            elif self._identity != status.identity:
                raise Stale(f"{self.path} was replaced", replaced=self.path)
            self._size_seen = status.size
        return self._size_seen

    def was_replaced(self) -> bool:
        """Whether the name leads to another file by now. Asks the file system."""
        return self._access.files.status_of(self.path).identity != self._identity

    def window(self, number: int) -> MappedWindow:
        """A part of the file, mapped now if it was not. `size` comes first."""
        assert self._identity is not None, "the size comes first"
        window = self._windows.get(self._identity, number)
        return self._map(self._identity, number) if window is None else window

    def seen_part(self, number: int) -> memoryview:
        """A window as far as the file was seen to go."""
        return self.window(number).below(self._size_seen)

    def unpack(self, record: struct.Struct, position: int) -> tuple[int, ...]:
        """The fields of a record that does not lie across two windows."""
        self._refuse_unseen(position, position + record.size)
        number, within = divmod(position, self._windows.window_size)
        return record.unpack_from(self.seen_part(number), within)

    def views(self, start: int, end: int) -> list[memoryview]:
        """The bytes from start to end, one view for each window they touch."""
        self._refuse_unseen(start, end)
        window_size = self._windows.window_size
        found = []
        while start < end:
            number, within = divmod(start, window_size)
            step = min(end - start, window_size - within)
            found.append(self.seen_part(number)[within : within + step])
            start += step
        return found

    def _refuse_unseen(self, start: int, end: int) -> None:
        if not 0 <= start <= end <= self._size_seen:
            raise Stale(f"{self.path} has {self._size_seen} bytes, not those from {start} to {end}")

    def let_go(self) -> None:
        """Unmap the file, as soon as no slice of it is held."""
        if self._identity is not None:
            self._windows.drop(self._identity)

    def keep_in(self, windows: WindowCache) -> None:
        """From now on the windows of this file belong to another cache."""
        if windows is not self._windows:
            self.let_go()
            self._windows = windows

    def cold_range(self, start: int, end: int) -> Cold | None:
        """The bytes themselves, if reading them through the map would wait for the disk."""
        assert self._identity is not None, "the size comes first"
        window_size = self._windows.window_size
        at = start
        while at < end:
            number, within = divmod(at, window_size)
            step = min(end - at, window_size - within)
            self.window(number)
            if self._windows.is_cold(self._identity, number, within, within + step):
                return Cold(self.path, start, end)
            at += step
        return None

    def _map(self, identity: FileIdentity, number: int) -> MappedWindow:
        files = self._access.files
        fd = files.open(self.path, os.O_RDONLY)
        try:
            if files.status(fd).identity != identity:
                raise Stale(f"{self.path} was replaced", replaced=self.path)
            self._access.found_unconfirmed = True
            return self._windows.map(identity, number, fd)
        finally:
            files.close(fd)


class SegmentView:
    """A segment as far as it has been published: so many messages, so many bytes."""

    def __init__(
        self, directory: str, first_offset: int, access: ReadOnlyFiles, codec: Codec = Codec.NONE
    ) -> None:
        self.first_offset = first_offset
        self._partition_cipher = access.cipher
        self._cipher: SegmentCipher | None = None
        # What is compressed comes plain out of its blocks, encrypted or not.
        is_plain = access.cipher is None or codec is not Codec.NONE
        self._form: SegmentForm | None = PLAIN if is_plain else None
        self.must_verify = False
        self.codec = codec
        path = stored_log_path(directory, first_offset, codec)
        self.log: MappedFile | CompressedFile
        if codec is Codec.NONE:
            self.log = MappedFile(path, access, access.windows)
        else:
            self.log = CompressedFile(
                path, first_offset, access.files, access.blocks, access.note_found, access.cipher
            )
        self._index_windows = access.index_windows
        self.index = MappedFile(
            index_path(directory, first_offset), access, access.index_windows.of_sealed
        )
        self.window_size = access.windows.window_size
        self._entries_per_window = self.window_size // INDEX_ENTRY_SIZE
        self._message_count = 0
        self._position_max: int | None = None
        self._sealed_up_to: int | None = None

    def seal(self, following: int) -> None:
        """The segment is complete; the next one begins at `following`."""
        if self._sealed_up_to is None:
            self.index.keep_in(self._index_windows.of_sealed)
            self._sealed_up_to = following
            self._message_count = -1
            self._position_max = None

    def grow(self, message_count: int, end_position: int) -> None:
        """The segment is the active one and has got that far."""
        self.index.keep_in(self._index_windows.of_active)
        needed = message_count * INDEX_ENTRY_SIZE
        if needed and self.index.size(needed) < needed:
            raise Stale(f"{self.index.path} is shorter than published", self.first_offset)
        self._message_count = message_count
        self._position_max = end_position
        self._sealed_up_to = None

    def lacks(self, offset: int) -> bool:
        """Whether there should be a message of this offset here, but the index has none."""
        following = self._sealed_up_to
        return following is not None and self.end_offset <= offset < following

    def has_time(self, number: int) -> bool:
        """Whether a message has the time that the index says, as far as its header can tell."""
        start = self.start_of(number)
        if not self.has_bytes(start, start + MESSAGE_HEADER_SIZE):
            return False
        try:
            header = b"".join(self.log.views(start, start + MESSAGE_HEADER_SIZE))
        except BlockDamaged:
            return False
        found: int = HEADER_TIMESTAMP.unpack_from(header)[0]
        return found == self.timestamp_of(number)

    def let_go(self) -> None:
        """The segment was deleted."""
        self.log.let_go()
        self.index.let_go()

    @property
    def message_count(self) -> int:
        """How many messages may be read, by the index."""
        if self._message_count < 0 and self._sealed_up_to is not None:
            # All up to the next segment, unless recovery could find fewer.
            expected = self._sealed_up_to - self.first_offset
            size = self.index.size(expected * INDEX_ENTRY_SIZE)
            self._message_count = min(expected, size // INDEX_ENTRY_SIZE)
        return self._message_count

    @property
    def end_offset(self) -> int:
        """The offset behind the last message."""
        return self.first_offset + self.message_count

    def end_of(self, number: int) -> int:
        """Where the message of this number ends in the log."""
        position = self.index.unpack(POSITION, number * INDEX_ENTRY_SIZE)[0]
        if isinstance(self.log, CompressedFile):
            return self.log.written_form.message_bytes(position, number + 1)
        return position

    def start_of(self, number: int) -> int:
        """Where the message of this number begins in the log."""
        return self.end_of(number - 1) if number else self.form.start

    @property
    def form(self) -> SegmentForm:
        """How its messages are stored; with the first of them that is settled."""
        if self._form is None:
            if self.message_count == 0:
                return PLAIN
            size = min(HEADER_SIZE, self.log.size(HEADER_SIZE))
            begin = b"".join(self.log.views(0, size))
            self._form = form_of(begin)
            self.must_verify = self._form is PLAIN and not self._begins_plain(begin)
        return self._form

    def _begins_plain(self, begin: bytes) -> bool:
        """Whether that is the first message; if not, it may be a header that was lost."""
        if len(begin) < MESSAGE_HEADER_SIZE:
            return False
        offset, user_headers_length, payload_length = SENT_FIELDS.unpack_from(begin)
        end = MESSAGE_HEADER_SIZE + user_headers_length + payload_length
        return bool(offset == self.first_offset and end == self.end_of(0))

    @property
    def cipher(self) -> SegmentCipher | None:
        """What decrypts its messages, None if they are plain. CannotDecryptData if nothing can."""
        header = self.form.header
        if self._cipher is None and header is not None and self._partition_cipher is not None:
            try:
                self._cipher = self._partition_cipher.resume(self.first_offset, header)
            except CannotOpenSegment as error:
                raise CannotDecryptData(f"{self.log.path}: {error}") from error
        return self._cipher

    def seal_around(self, number: int) -> tuple[int, int]:
        """The first message of the seal that this one is in, and the one behind its last.

        By what its header says; itself alone if that cannot be.
        """
        start = self.start_of(number)
        place = seal_place(b"".join(self.log.views(start, start + MESSAGE_HEADER_SIZE)))
        first = number - place.number
        end = first + place.message_count
        return (first, end) if 0 <= first < end <= self.message_count else (number, number + 1)

    @property
    def is_copied(self) -> bool:
        """Whether its messages are sent from memory, not from a map of the file."""
        return self.codec is not Codec.NONE or self.cipher is not None

    def ends(self, number: int, count: int) -> list[int]:
        """Where each of these messages ends."""
        start = number * INDEX_ENTRY_SIZE
        entries = b"".join(self.index.views(start, start + count * INDEX_ENTRY_SIZE))
        if isinstance(self.log, CompressedFile):
            return ends_in(self.log.written_form.as_plain(bytearray(entries), number))
        return ends_in(entries)

    def timestamp_of(self, number: int) -> int:
        """The time of the message of this number, by the index."""
        return self.index.unpack(TIMESTAMP, number * INDEX_ENTRY_SIZE)[0]

    def first_at_or_after(self, timestamp: int) -> int:
        """The number of the first message whose time is not before `timestamp`.

        The last message must be such a one.
        """
        count = self.message_count
        step = self._entries_per_window
        ends = range(step, count, step)  # of all windows but the last
        window = bisect_left(ends, timestamp, key=lambda end: self.timestamp_of(end - 1))
        start = window * step
        entries = self.index.seen_part(window)
        return start + first_at_or_after(entries, min(step, count - start), timestamp)

    def has_bytes(self, start: int, end: int) -> bool:
        """May these bytes of the log be touched? Not if a damaged index made them up."""
        if not start < end or (self._position_max is not None and end > self._position_max):
            return False
        return self.log.size(end) >= end


def missing_forms(segments: Sequence[SegmentView]) -> list[MissingBlocks]:
    """What has to be loaded before the indexes of compressed segments can be understood."""
    logs = (view.log for view in segments if isinstance(view.log, CompressedFile))
    return [one for log in logs if (one := log.missing_form()) is not None]


def ends_in(entries: bytes | bytearray) -> list[int]:
    """The positions in some index entries: every fourth of the 32-bit words."""
    return memoryview(entries).cast("I")[1::4].tolist()
