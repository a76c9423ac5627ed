"""Sealed segments at a start, plain and compressed.

They are judged by their sizes. Nothing is cut: what is damaged there is rot, and messages behind
it stay readable.
"""

import os

from borzoi.protocol.batch import INDEX_ENTRY_SIZE
from borzoi.storage.codecs import Codec
from borzoi.storage.compressed_log import open_compressed
from borzoi.storage.files import Files
from borzoi.storage.index_check import replace_index
from borzoi.storage.layout import index_path, log_path, segment_name, stored_log_path
from borzoi.storage.recovered import Recovered
from borzoi.storage.scan import LogBytes, rebuild_index
from borzoi.storage.segment import Compressed, LogEnd
from borzoi.storage.segment_end import end_by_entries, end_by_index, open_log


def judge_sealed(
    directory: str, segment: int, following: int, files: Files, recovered: Recovered
) -> LogEnd:
    """The end of a plain sealed segment; an index that does not fit is made from the log."""
    expected = following - segment
    fd = files.open(log_path(directory, segment), os.O_RDONLY)
    try:
        log = open_log(files, fd, segment)
        judged = end_by_index(directory, log, expected, files)
        if judged is not None:
            return judged
        return _rebuild_sealed(directory, log, expected, files, recovered)
    finally:
        files.close(fd)


def take_compressed(
    directory: str, segment: int, codec: Codec, following: int, files: Files, recovered: Recovered
) -> None:
    """A sealed segment that was compressed."""
    expected = following - segment
    path = stored_log_path(directory, segment, codec)
    with open_compressed(path, segment, files, recovered.cipher) as log:
        compressed = Compressed(codec, log.stored_bytes)
        form = log.index_form
        end = end_by_index(directory, log, expected, files)
        if end is None:
            end = _rebuild_sealed(directory, log, expected, files, recovered)
        recovered.report += [f"{segment_name(segment)}: DAMAGED {text}" for text in log.damage]
    recovered.end = end
    recovered.sealed.append(end.sealed()._replace(compressed=compressed, form=form))


def end_with_compressed(
    directory: str, segment: int, codec: Codec, files: Files, recovered: Recovered
) -> None:
    """The segment that followed has lost its name, and with it what was in it."""
    with open_compressed(stored_log_path(directory, segment, codec), segment, files) as log:
        facts = log.index.facts
    if facts is not None:
        count = facts.message_count
    else:
        index = files.read_whole(index_path(directory, segment))
        count = len(index or b"") // INDEX_ENTRY_SIZE
    take_compressed(directory, segment, codec, segment + count, files, recovered)
    recovered.unsynced.append(segment)
    recovered.is_synced = False
    recovered.end = recovered.end.rolled()
    recovered.trusted_from = recovered.end.next_offset


def _rebuild_sealed(
    directory: str, log: LogBytes, expected: int, files: Files, recovered: Recovered
) -> LogEnd:
    segment, following = log.segment, log.segment + expected
    rebuilt = rebuild_index(log, expected, recovered.end.last_timestamp, fill=False)
    entries = log.index_form.as_written(bytearray(rebuilt.entries))
    replace_index(directory, segment, entries, files)
    recovered.note_rebuilt(segment, rebuilt)
    if rebuilt.end_position != log.size:
        recovered.report.append(
            f"{segment_name(segment)}: {log.size - rebuilt.end_position} bytes at its end are "
            f"not messages, they are left alone"
        )
    if rebuilt.message_count < expected:
        recovered.report.append(
            f"{segment_name(segment)}: LOST offsets {segment + rebuilt.message_count} to "
            f"{following - 1}, the next segment begins at {following}"
        )
    return end_by_entries(log, rebuilt.entries, rebuilt.end_position, recovered.end)
