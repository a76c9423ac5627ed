"""The active segment at a start: what of it is durable, and where its sound messages end.

    durable part     before the recovery point: as a sealed segment, nothing is cut
    rest             verified message by message, cut at the first that is not sound

The log is cut only above what was ever published.
"""

import os

from borzoi.protocol.batch import INDEX_ENTRY_SIZE
from borzoi.storage.clean_stop import CleanPartition
from borzoi.storage.files import Files
from borzoi.storage.index_check import is_sound_index, replace_index
from borzoi.storage.layout import index_path, log_path, segment_name
from borzoi.storage.published import Published
from borzoi.storage.recovered import Recovered
from borzoi.storage.recovery_point import RecoveryPoint
from borzoi.storage.scan import LogFile, rebuild_index, scan_file, whole_seals
from borzoi.storage.segment import IndexEntry
from borzoi.storage.segment_end import end_by_entries, end_by_index, open_log


class ActiveRecovery:
    """The last segment of a partition, from its files to the end of the log."""

    def __init__(self, directory: str, segment: int, files: Files, recovered: Recovered) -> None:
        self._directory = directory
        self._segment = segment
        self._files = files
        self._recovered = recovered
        self._name = segment_name(segment)

    def run(
        self,
        point: RecoveryPoint | None,
        clean: CleanPartition | None,
        board: Published | None,
    ) -> None:
        """Find the end of the log, and cut what lies behind it."""
        recovered = self._recovered
        fd = self._files.open(log_path(self._directory, self._segment), os.O_RDWR)
        try:
            log = open_log(self._files, fd, self._segment)
            recovered.has_active_files = True
            if clean is not None:
                if self._accept_clean(log, clean):
                    return
                recovered.report.append(f"{self._name}: not as the clean stop left it, scanning")
            recovered.is_synced = False
            self._scan(log, self._durable(log, point, board), board)
        finally:
            self._files.close(fd)

    def _accept_clean(self, log: LogFile, clean: CleanPartition) -> bool:
        count = clean.next_offset - self._segment
        if (
            clean.segment != self._segment
            or clean.end_position != log.size
            or clean.index_length != count * INDEX_ENTRY_SIZE
        ):
            return False
        found = end_by_index(self._directory, log, count, self._files)
        if found is None:
            return False
        before = self._recovered.end.last_timestamp
        self._recovered.end = found._replace(last_timestamp=max(before, found.last_timestamp))
        self._recovered.trusted_from = clean.next_offset
        return True

    def _durable(
        self, log: LogFile, point: RecoveryPoint | None, board: Published | None
    ) -> RecoveryPoint:
        """Up to where nothing may be cut."""
        durable = RecoveryPoint(0, self._segment, 0, self._segment)
        if point is not None and point.segment == self._segment:
            durable = point
        if (
            board is not None
            and board.active_segment == self._segment
            and board.end_position > durable.position
        ):
            durable = RecoveryPoint(
                board.birth, self._segment, board.end_position, board.next_offset
            )
        if durable.next_offset == self._segment:
            # It may have been noted when the empty segment was to be of another form.
            durable = durable._replace(position=log.form.start)
        if durable.position > log.size:
            self._recovered.report.append(
                f"{self._name}: has {log.size} bytes, but {durable.position} were durable"
            )
        return durable

    def _scan(self, log: LogFile, durable: RecoveryPoint, board: Published | None) -> None:
        recovered = self._recovered
        before = recovered.end
        index = self._files.read_whole(index_path(self._directory, self._segment))
        count = durable.next_offset - self._segment
        entries = bytearray((index or b"")[: count * INDEX_ENTRY_SIZE])
        recovered.trusted_from = durable.next_offset
        if durable.position > log.size:
            rebuilt = rebuild_index(log, count, before.last_timestamp, fill=False)
            recovered.note_rebuilt(self._segment, rebuilt)
            entries, end = rebuilt.entries, rebuilt.end_position
        else:
            if is_sound_index(entries, count, durable.position, log.form.start):
                if board is not None and board.next_offset == durable.next_offset:
                    recovered.trusted_from = board.trusted_from
            else:
                below = log._replace(size=durable.position)
                rebuilt = rebuild_index(below, count, before.last_timestamp, fill=True)
                recovered.note_rebuilt(self._segment, rebuilt)
                entries = rebuilt.entries
            end = self._scan_tail(log, entries, durable, before.last_timestamp)
        if index is None or entries != index:
            replace_index(self._directory, self._segment, entries, self._files)
            recovered.report.append(f"{self._name}: index rewritten")
        recovered.end = end_by_entries(log, entries, end, before)

    def _scan_tail(
        self, log: LogFile, entries: bytearray, durable: RecoveryPoint, timestamp_min: int
    ) -> int:
        """Verify what follows the durable part, cut what is torn, return where the log ends."""
        count = durable.next_offset - self._segment
        if count:
            timestamp_min = max(timestamp_min, IndexEntry.at(entries, count - 1).timestamp)
        found = scan_file(log, durable.position, durable.next_offset, timestamp_min)
        if log.form.header is not None:
            found = whole_seals(found, log, durable.position)
        entries += found.index_entries
        end = durable.position + found.valid_size
        self._recovered.scanned_bytes = log.size - durable.position
        if end < log.size:
            self._files.ftruncate(log.fd, end)
            self._recovered.cut_bytes = log.size - end
            self._recovered.report.append(
                f"{self._name}: cut {log.size - end} bytes behind offset "
                f"{durable.next_offset + found.message_count - 1}, they are not sound messages"
            )
        return end
