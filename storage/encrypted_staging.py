"""Batches on their way into encrypted segments, and over the border between the two forms.

Used instead of a plain StagedGroup where something is, or is to be, encrypted. A segment has one
form. When the active one has another than is wanted now, because the setting was changed before
this start, the first batch seals it and goes into a new one. An empty one is replaced instead.
Until that first batch nothing on the disk changes. A segment of an older key is of another form,
and a key may be exchanged at any time: each batch asks.
"""

from collections.abc import Callable

from borzoi.protocol.batch import stamp_batch
from borzoi.storage.encrypted import CannotOpenSegment, PartitionCipher, SegmentCipher
from borzoi.storage.segment import POSITION_MAX, LogEnd
from borzoi.storage.segment_form import (
    ENCRYPTED_MARK,
    MESSAGE_OVERHEAD,
    PLAIN,
    SegmentForm,
)
from borzoi.storage.staging import StagedGroup


def new_group(
    end: LogEnd,
    segment_size_max: int,
    random_bytes: Callable[[int], bytes],
    cipher: PartitionCipher | None,
) -> StagedGroup:
    """What stages the batches behind this end, in the form wanted."""
    writer = cipher if cipher is not None and cipher.encrypts else None
    if writer is None and end.form == PLAIN:
        return StagedGroup(end, segment_size_max, random_bytes)
    return FormingGroup(end, segment_size_max, random_bytes, writer)


class FormingGroup(StagedGroup):
    """A group that encrypts, or that leaves an encrypted segment behind."""

    __slots__ = ("_cipher", "_form", "_must_roll", "_writer")

    def __init__(
        self,
        end: LogEnd,
        segment_size_max: int,
        random_bytes: Callable[[int], bytes],
        writer: PartitionCipher | None,
    ) -> None:
        self._writer = writer
        self._cipher: SegmentCipher | None = None
        self._form: SegmentForm = PLAIN
        self._must_roll = False
        super().__init__(end, segment_size_max, random_bytes)

    @property
    def end(self) -> LogEnd:
        """Where the log ends with this group, in the form of the last segment."""
        return super().end._replace(form=self._form)

    @property
    def form(self) -> SegmentForm:
        """The form of the segment that the group begins in."""
        return self.sealed[0].end.form if self.sealed else self._form

    @property
    def is_outdated(self) -> bool:
        """Whether the open segment is encrypted with another key than what comes now should be."""
        return self._writer is not None and self._writer.is_outdated(self._form)

    def add(self, batch: memoryview, message_count: int, now_us: int) -> int:
        """Stages a batch, encrypted if there is a cipher; returns its first offset."""
        # Here, so that the base class meets a batch that surely fits.
        stored_size_max = batch.nbytes + message_count * MESSAGE_OVERHEAD
        is_full = self.position + stored_size_max > POSITION_MAX
        if self._must_roll or is_full or (self.is_outdated and self.next_offset > self.segment):
            self.seal()
        cipher = self._cipher
        if cipher is None:
            return super().add(batch, message_count, now_us)
        # Stamped twice. First as clients will see it: that is also what a batch is recognised by
        # that is submitted again after our death. Then as stored, for the checksums and the index.
        timestamp = max(now_us, self._last_timestamp)
        offset = self.next_offset
        stamp_batch(batch, message_count, offset, timestamp, self._random_bytes, offset, 0)
        return super().add(cipher.encrypt(batch, message_count), message_count, timestamp)

    def _open(self, end: LogEnd) -> None:
        writer = self._writer
        self._must_roll = False
        if self._fits(end):
            pass
        elif end.message_count:
            self._must_roll = True
            self._cipher, self._form = None, end.form
        else:
            self._cipher = writer.begin(end.segment) if writer is not None else None
            self._form = PLAIN if self._cipher is None else self._cipher.form
            end = end._replace(position=self._form.start, form=self._form)
        self._stamp_batch = stamp_batch if self._cipher is None else _stamp_marked
        super()._open(end)

    def _fits(self, end: LogEnd) -> bool:
        """Whether what is there can be gone on with; sets the cipher for it."""
        if self._writer is None or end.form.header is None:
            self._cipher, self._form = None, end.form
            return self._writer is None and end.form == PLAIN
        if self._writer.is_outdated(end.form):
            return False
        if self._cipher is not None and self._cipher.form == end.form:
            # The nonces go on as well.
            return True
        try:
            self._cipher = self._writer.resume(end.segment, end.form.header)
        except CannotOpenSegment:
            return False
        self._form = end.form
        return True


def _stamp_marked(
    batch: memoryview,
    message_count: int,
    first_offset: int,
    timestamp: int,
    random_bytes: Callable[[int], bytes],
    segment_first_offset: int,
    position: int,
) -> bytearray:
    """As stamp_batch, for messages that are encrypted."""
    return stamp_batch(
        batch,
        message_count,
        first_offset | ENCRYPTED_MARK,
        timestamp,
        random_bytes,
        segment_first_offset | ENCRYPTED_MARK,
        position,
    )
