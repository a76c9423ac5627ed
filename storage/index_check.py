"""Whether an index is what its log says, and what it should be if not.

An index is never changed in place: readers in other processes may have it mapped.
"""

import os
from typing import NamedTuple

import xxhash

from borzoi.protocol.batch import INDEX_ENTRY_SIZE
from borzoi.storage.codecs import Codec
from borzoi.storage.compressed_log import open_compressed
from borzoi.storage.encrypted import PartitionCipher
from borzoi.storage.files import Files
from borzoi.storage.layout import index_path, segment_name, stored_log_path
from borzoi.storage.scan import rebuild_index
from borzoi.storage.segment_end import open_log


class CheckedIndex(NamedTuple):
    """What the index of a segment should be, None if it is just that; and what was found."""

    entries: bytearray | None
    report: list[str]


def check_index(
    directory: str,
    segment: int,
    message_count_max: int,
    files: Files,
    codec: Codec,
    cipher: PartitionCipher | None = None,
) -> CheckedIndex:
    """Compare the index of a sealed segment with its log. For a thread: reads all of it."""
    found = files.read_whole(index_path(directory, segment))
    path = stored_log_path(directory, segment, codec)
    if codec is Codec.NONE:
        fd = files.open(path, os.O_RDONLY)
        try:
            log = open_log(files, fd, segment)
            rebuilt = rebuild_index(log, message_count_max, 0, fill=False)
        finally:
            files.close(fd)
    else:
        with open_compressed(path, segment, files, cipher) as packed:
            rebuilt = rebuild_index(packed, message_count_max, 0, fill=False)
            facts = packed.index.facts
            rebuilt = rebuilt._replace(entries=packed.index_form.as_written(rebuilt.entries))
        if facts is not None and xxhash.xxh3_64_intdigest(found or b"") == facts.index_checksum:
            # Right, also where damaged blocks hide the messages that it speaks of.
            rebuilt = rebuilt._replace(entries=bytearray(found or b""))
    lost = [lost_text(segment, first, end) for first, end in rebuilt.lost]
    if found == bytes(rebuilt.entries):
        return CheckedIndex(None, lost)
    return CheckedIndex(rebuilt.entries, [f"{segment_name(segment)}: index rewritten", *lost])


def is_sound_index(
    entries: bytes | bytearray, message_count: int, end_position: int, start: int = 0
) -> bool:
    """Could this be the index of so many messages that end there? Catches pages never written."""
    if len(entries) != message_count * INDEX_ENTRY_SIZE:
        return False
    if message_count == 0:
        return end_position == start
    columns = memoryview(entries).cast("I")
    positions = columns[1::4].tolist()
    return (
        positions[-1] == end_position
        and columns[0::4].tolist() == list(range(message_count))
        and sorted(positions) == positions
    )


def replace_index(directory: str, segment: int, entries: bytes | bytearray, files: Files) -> None:
    """Put an index under its name, in one step: readers may have the old one mapped."""
    files.replace(index_path(directory, segment), entries, durable=False)


def lost_text(segment: int, first: int, end: int) -> str:
    """The line of a report about messages that are not sound."""
    return f"{segment_name(segment)}: DAMAGED messages at offsets {first} to {end - 1}"
