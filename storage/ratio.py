"""What compression saves: per segment, and per topic of a data directory.

Sizes of messages are those on the wire, and sizes on the disk those of the files of messages.
Indexes are the same either way and count nowhere. Reads names, sizes and 64 bytes of each
compressed file, so it may look at the directory of a running broker. What is deleted meanwhile is
passed over.
"""

import os
from collections.abc import Iterator
from itertools import groupby
from typing import NamedTuple

from borzoi.storage.block_index import BlockIndexDamaged, read_plain_size
from borzoi.storage.codecs import Codec
from borzoi.storage.files import Files
from borzoi.storage.layout import DataLayout, segment_codecs, stored_log_path
from borzoi.storage.segment import SealedSegment


class Ratio(NamedTuple):
    """What compression has done to some segments, from the sizes of their files."""

    segments: int = 0
    plain_bytes: int = 0
    stored_bytes: int = 0

    @property
    def saved_bytes(self) -> int:
        """How many bytes less the segments take."""
        return self.plain_bytes - self.stored_bytes

    @property
    def ratio(self) -> float:
        """How many plain bytes one byte on the disk stands for."""
        return self.plain_bytes / self.stored_bytes if self.stored_bytes else 1.0

    def with_segment(self, segment: SealedSegment) -> "Ratio":
        """Returns the ratio with one more segment; the same if that is not compressed."""
        if segment.compressed is None:
            return self
        return self.plus(Ratio(1, segment.size_bytes, segment.compressed.stored_bytes))

    def plus(self, other: "Ratio") -> "Ratio":
        """Returns the ratio of both together."""
        return Ratio(*map(sum, zip(self, other, strict=True)))


class TopicRatio(NamedTuple):
    """A topic: how many segments it has, and what became of those that are compressed."""

    stream_id: int
    topic_id: int
    segments: int
    codecs: tuple[str, ...]
    compressed: Ratio

    def as_json(self) -> dict[str, object]:
        """Returns the members of a JSON object."""
        return {
            "stream_id": self.stream_id,
            "topic_id": self.topic_id,
            "segments": self.segments,
            "compressed_segments": self.compressed.segments,
            "codecs": list(self.codecs),
            "plain_bytes": self.compressed.plain_bytes,
            "stored_bytes": self.compressed.stored_bytes,
            "saved_bytes": self.compressed.saved_bytes,
            "ratio": round(self.compressed.ratio, 3),
        }


def topic_ratios(layout: DataLayout, files: Files) -> Iterator[TopicRatio]:
    """Every topic that has files, by its ids."""
    found = layout.partition_directories(files)
    for (stream_id, topic_id), partitions in groupby(found, key=lambda one: one[:2]):
        segments, codecs, total = 0, set(), Ratio()
        for partition in partitions:
            for first_offset, codec in _segments(partition.path, files):
                segments += 1
                if codec is not Codec.NONE:
                    codecs.add(codec.label)
                    path = stored_log_path(partition.path, first_offset, codec)
                    total = total.plus(_ratio_of_file(path, files))
        yield TopicRatio(stream_id, topic_id, segments, tuple(sorted(codecs)), total)


def ratio_lines(ratios: list[TopicRatio]) -> Iterator[str]:
    """A table, and what all of it comes to."""
    heads = ("stream", "topic", "segments", "compressed", "codecs", "message bytes")
    yield "  ".join((*(f"{head:>13}" for head in heads), f"{'on disk':>13}  {'saved':>13}  ratio"))
    for one in ratios:
        codecs = ",".join(one.codecs) or "-"
        found = one.compressed
        yield (
            f"{one.stream_id:>13}  {one.topic_id:>13}  {one.segments:>13}  {found.segments:>13}"
            f"  {codecs:>13}  {found.plain_bytes:>13}  {found.stored_bytes:>13}"
            f"  {found.saved_bytes:>13}  {found.ratio:.2f}"
        )
    total = Ratio()
    for one in ratios:
        total = total.plus(one.compressed)
    yield f"{total.segments} compressed segments, {total.saved_bytes} bytes saved"


def _segments(directory: str, files: Files) -> list[tuple[int, Codec]]:
    try:
        return list(segment_codecs(files.listdir(directory)).items())
    except FileNotFoundError:
        return []


def _ratio_of_file(path: str, files: Files) -> Ratio:
    try:
        fd = files.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return Ratio()
    try:
        size = files.size(fd)
        plain_size = read_plain_size(lambda count, at: files.pread(fd, count, at), size)
    except BlockIndexDamaged:
        # `borzoi check` tells of it.
        return Ratio(1, size, size)
    finally:
        files.close(fd)
    return Ratio(1, plain_size, size)
