"""Which encryption keys the segments of a data directory need, by what lies on the disk.

Reads names, sizes and a few bytes of each file, so it may look at the directory of a running
broker, and needs no key. What is deleted or replaced meanwhile is passed over: it is looked at
again. A segment without messages needs no key.
"""

import os
from collections.abc import Iterator
from typing import Final, NamedTuple

from borzoi.storage.block_index import read_packed_form
from borzoi.storage.codecs import Codec
from borzoi.storage.files import Files
from borzoi.storage.layout import DataLayout, segment_codecs, stored_log_path
from borzoi.storage.segment_form import HEADER_SIZE, SegmentForm, read_form


class Used(NamedTuple):
    """Segments of one key, or without one: how many files, and their bytes on the disk."""

    segments: int = 0
    size_bytes: int = 0


class StoredFile(NamedTuple):
    """A file of messages, and how it is encrypted."""

    form: SegmentForm
    size_bytes: int


NO_KEY: Final = b""
"""Stands for the segments that are not encrypted."""


def used_by_segments(
    layout: DataLayout, files: Files, *, skips_unreadable: bool = False
) -> dict[bytes, Used]:
    """By the id of the key: the segments that need it. OSError if a partition cannot be read."""
    found: dict[bytes, Used] = {}
    for partition in layout.partition_directories(files):
        try:
            segments = list(_segment_files(partition.path, files))
        except OSError:
            if not skips_unreadable:
                raise
            continue
        for file in segments:
            key_id = NO_KEY if file.form.header is None else file.form.header.key_id
            before = found.get(key_id, Used())
            found[key_id] = Used(before.segments + 1, before.size_bytes + file.size_bytes)
    return found


def _segment_files(directory: str, files: Files) -> Iterator[StoredFile]:
    try:
        codecs = segment_codecs(files.listdir(directory))
    except FileNotFoundError:
        return
    for first_offset, codec in codecs.items():
        file = _segment_file(stored_log_path(directory, first_offset, codec), codec, files)
        if file is None:
            # Compressed meanwhile, or deleted.
            packed = segment_codecs(files.listdir(directory)).get(first_offset, codec)
            file = _segment_file(stored_log_path(directory, first_offset, packed), packed, files)
        if file is not None:
            yield file


def _segment_file(path: str, codec: Codec, files: Files) -> StoredFile | None:
    try:
        fd = files.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        size = files.size(fd)
        if codec is not Codec.NONE:
            form = read_packed_form(lambda count, position: files.pread(fd, count, position))
            return StoredFile(form, size)
        form = read_form(files, fd)
        has_messages = size > HEADER_SIZE if form.header is not None else size > 0
        return StoredFile(form, size) if has_messages else None
    finally:
        files.close(fd)
