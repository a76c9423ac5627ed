"""A ZIP archive in memory, with every compression that GET_SNAPSHOT knows.

The standard library writes four of the six methods, and zstd only from Python 3.14 on. One small
writer for all is less than two ways. Layout, all little-endian:

    per entry   local header 30 bytes, drawn at LOCAL | name | compressed bytes
    then        per entry a central header 46 bytes, drawn at CENTRAL | name
    then        the end record 22 bytes, drawn at END

Pure: takes bytes and a time, returns bytes. Entries stay far below 4 GiB, so no ZIP64.
"""

import bz2
import lzma
import struct
import sys
import zlib
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Final, NamedTuple

from borzoi.protocol.commands.system import SnapshotCompression

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

# signature u32 | version needed u16 | flags u16 | method u16 | time u16 | date u16 | crc u32
# | compressed size u32 | size u32 | name length u16 | extra length u16
LOCAL: Final = struct.Struct("<IHHHHHIIIHH")
LOCAL_SIGNATURE: Final = 0x04034B50
# signature u32 | made by u16, then as LOCAL from "version needed" to "extra length",
# | comment length u16 | disk u16 | internal attributes u16 | external attributes u32
# | position of the local header u32
CENTRAL: Final = struct.Struct("<IHHHHHHIIIHHHHHII")
CENTRAL_SIGNATURE: Final = 0x02014B50
# signature u32 | disk u16 | disk of the central part u16 | entries here u16 | entries u16
# | size of the central part u32 | its position u32 | comment length u16
END: Final = struct.Struct("<IHHHHIIH")
END_SIGNATURE: Final = 0x06054B50

MADE_BY_UNIX: Final = 3 << 8 | 63
OWNER_ONLY: Final = 0o100600 << 16
EPOCH_YEAR: Final = 1980
ENDS_WITH_MARKER: Final = 1 << 1  # of method 14: no size is needed to find the end

# Logs are text: a small dictionary finds nearly all of it, in a fraction of the time.
LZMA_DICTIONARY_SIZE: Final = 1 << 20
LZMA_FILTER: Final = {
    "id": lzma.FILTER_LZMA1,
    "preset": 1,
    "lc": 3,
    "lp": 0,
    "pb": 2,
    "dict_size": LZMA_DICTIONARY_SIZE,
}
# SDK version 9.4 u8 u8 | size of the properties u16 | (pb * 5 + lp) * 9 + lc u8 | dictionary u32
LZMA_HEADER: Final = struct.pack("<BBHBI", 9, 4, 5, (2 * 5 + 0) * 9 + 3, LZMA_DICTIONARY_SIZE)


class Method(NamedTuple):
    """How one compression is called in a ZIP archive, and how it is done."""

    number: int
    version_needed: int
    compress: Callable[[bytes], bytes]
    flags: int = 0


def _deflate(data: bytes) -> bytes:
    compressor = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return compressor.compress(data) + compressor.flush()


def _lzma(data: bytes) -> bytes:
    return LZMA_HEADER + lzma.compress(data, lzma.FORMAT_RAW, filters=[LZMA_FILTER])


METHODS: Final[Mapping[SnapshotCompression, Method]] = {
    SnapshotCompression.STORED: Method(0, 10, bytes),
    SnapshotCompression.DEFLATED: Method(8, 20, _deflate),
    SnapshotCompression.BZIP2: Method(12, 46, bz2.compress),
    SnapshotCompression.LZMA: Method(14, 63, _lzma, ENDS_WITH_MARKER),
    SnapshotCompression.ZSTD: Method(93, 63, zstd.compress),
    SnapshotCompression.XZ: Method(95, 63, lambda data: lzma.compress(data, preset=1)),
}


def zip_archive(
    entries: Mapping[str, bytes], compression: SnapshotCompression, at: datetime
) -> bytes:
    """The archive with these files, in this order, all of the same time."""
    method = METHODS[compression]
    date = max(0, at.year - EPOCH_YEAR) << 9 | at.month << 5 | at.day
    time = at.hour << 11 | at.minute << 5 | at.second // 2
    parts: list[bytes] = []
    central: list[bytes] = []
    position = 0
    for name, data in entries.items():
        compressed = method.compress(data)
        name_bytes = name.encode("ascii")
        described = (
            method.version_needed,
            method.flags,
            method.number,
            time,
            date,
            zlib.crc32(data),
            len(compressed),
            len(data),
            len(name_bytes),
            0,
        )
        parts += (LOCAL.pack(LOCAL_SIGNATURE, *described), name_bytes, compressed)
        central += (
            CENTRAL.pack(
                CENTRAL_SIGNATURE, MADE_BY_UNIX, *described, 0, 0, 0, OWNER_ONLY, position
            ),
            name_bytes,
        )
        position += LOCAL.size + len(name_bytes) + len(compressed)
    central_size = sum(map(len, central))
    count = len(entries)
    end = END.pack(END_SIGNATURE, 0, 0, count, count, central_size, position, 0)
    return b"".join((*parts, *central, end))
