"""Reading archives of every compression, with what others have written for it."""

import io
import lzma
import sys
import zipfile
import zlib
from typing import Final

from borzoi.shards.observing.zip_archive import LOCAL

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

ZSTD: Final = 93
XZ: Final = 95


def unzipped(archive: bytes) -> dict[str, bytes]:
    """Names and contents; the standard library does what it can, and finds every entry."""
    with zipfile.ZipFile(io.BytesIO(archive)) as opened:
        return {one.filename: _content(opened, archive, one) for one in opened.infolist()}


def _content(opened: zipfile.ZipFile, archive: bytes, entry: zipfile.ZipInfo) -> bytes:
    if entry.compress_type not in (ZSTD, XZ):
        return opened.read(entry)
    start = entry.header_offset + LOCAL.size + len(entry.filename)
    compressed = archive[start : start + entry.compress_size]
    is_zstd = entry.compress_type == ZSTD
    content = zstd.decompress(compressed) if is_zstd else lzma.decompress(compressed)
    assert len(content) == entry.file_size
    assert zlib.crc32(content) == entry.CRC
    return bytes(content)
