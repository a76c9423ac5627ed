"""The check of a partition's indexes: each has to be the one that its log makes, byte for byte.

A repair rebuilds an index, or removes one that has no log. After a clean stop, when no deletion was
under way, the log of such an index is lost, and the index stays.
"""

from collections.abc import Container
from functools import partial

import xxhash

from borzoi.protocol.batch import INDEX_ENTRY_SIZE
from borzoi.storage.block_index import SegmentFacts
from borzoi.storage.clean_stop import CleanPartition
from borzoi.storage.files import Files
from borzoi.storage.findings import Findings
from borzoi.storage.index_check import is_sound_index
from borzoi.storage.layout import INDEX_SUFFIX, index_path, segment_first_offsets
from borzoi.storage.recovery import indexed_count, lost_log
from borzoi.storage.repairs import removed
from borzoi.storage.scan import Rebuilt


def check_index(
    path: str,
    first_offset: int,
    rebuilt: Rebuilt,
    findings: Findings,
    files: Files,
    *,
    may_be_longer: bool,
    facts: SegmentFacts | None = None,
) -> None:
    """The index of a segment against the one that its log makes.

    `may_be_longer`: entries of bytes that are no sound messages, but were left alone.
    `facts`: of a compressed segment; they know the index even where blocks are damaged.
    """
    found = files.read_whole(path)
    if facts is not None and is_index(found, facts):
        findings.counts.index_entries += rebuilt.message_count
        return
    if found is None:
        text = "there is no index"
    else:
        compared = found[: len(rebuilt.entries)] if may_be_longer else found
        if _fits(compared, rebuilt, first_offset):
            findings.counts.index_entries += rebuilt.message_count
            return
        text = "the index is not the one that the log makes"

    def mend() -> str:
        files.write_atomically(path, rebuilt.entries)
        return f"rebuilt from the log, {rebuilt.message_count} entries"

    findings.mendable(path, text, mend)


def check_lonely_indexes(
    directory: str,
    names: list[str],
    logs: Container[int],
    clean: CleanPartition | None,
    findings: Findings,
    files: Files,
) -> None:
    """Indexes of segments that were being made or deleted, or whose logs are lost.

    `logs`: the first offsets of segments that have one.
    """
    for first_offset in segment_first_offsets(names, INDEX_SUFFIX):
        if first_offset in logs:
            continue
        path = index_path(directory, first_offset)
        count = indexed_count(path, files)
        if clean is not None and count:
            findings.damaged(path, lost_log(first_offset, count))
        else:
            findings.mendable(path, "an index without a log", partial(removed, path, files))


def is_index(found: bytes | None, facts: SegmentFacts) -> bool:
    """Whether these bytes are the index that the facts of a compressed segment speak of."""
    return found is not None and xxhash.xxh3_64_intdigest(found) == facts.index_checksum


def _fits(found: bytes, rebuilt: Rebuilt, first_offset: int) -> bool:
    """Returns whether this is the index of these messages. Lost ones are not compared."""
    if found == rebuilt.entries:
        return True
    count = rebuilt.message_count
    if not rebuilt.lost or not is_sound_index(found, count, rebuilt.end_position):
        return False
    masked, expected = bytearray(found), bytearray(rebuilt.entries)
    for first, end in rebuilt.lost:
        lost = slice(
            (first - first_offset) * INDEX_ENTRY_SIZE, (end - first_offset) * INDEX_ENTRY_SIZE
        )
        masked[lost] = expected[lost] = bytes(lost.stop - lost.start)
    return masked == expected
