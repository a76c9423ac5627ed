"""The ways to make bytes smaller, by the codes that topics have on the wire.

Pure, and free of the GIL while it works, so a thread can do it beside the loop. Always: what
decompress() returns is exactly as long as was asked for, and never more than that is allocated,
whatever the bytes claim to be.
"""

import sys
import zlib
from collections.abc import Callable
from enum import IntEnum
from typing import Final

import lz4.block

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

# The owner's core has better things to do: what shrinks further by much more work is left.
GZIP_LEVEL: Final = 1
ZSTD_LEVEL: Final = 3
GZIP_WRAPPER: Final = 31  # a gzip header and trailer around the largest window

Bytes = bytes | bytearray | memoryview


class Codec(IntEnum):
    """How the messages of a sealed segment lie in its file."""

    NONE = 1
    GZIP = 2
    LZ4 = 3
    ZSTD = 4

    @property
    def label(self) -> str:
        """Its name in configurations and file names."""
        return self.name.lower()


class NotDecompressed(Exception):
    """The bytes are not what this codec makes, or not of that size."""


def compress(codec: Codec, plain: Bytes) -> bytes:
    """The bytes made smaller; they may turn out larger, the caller looks."""
    return _COMPRESS[codec](plain)


def decompress(codec: Codec, stored: Bytes, plain_size: int) -> bytes:
    """What compress() was given, if that had `plain_size` bytes. Else NotDecompressed."""
    try:
        plain = _DECOMPRESS[codec](stored, plain_size)
    except (zlib.error, lz4.block.LZ4BlockError, zstd.ZstdError, EOFError, ValueError) as error:
        raise NotDecompressed(f"{codec.label}: {error}") from error
    if len(plain) != plain_size:
        raise NotDecompressed(f"{codec.label}: {len(plain)} bytes instead of {plain_size}")
    return plain


def _gzip(plain: Bytes) -> bytes:
    return zlib.compress(plain, GZIP_LEVEL, GZIP_WRAPPER)


def _gunzip(stored: Bytes, plain_size: int) -> bytes:
    # One byte more is asked for than there should be, so that it shows if there is more.
    return zlib.decompressobj(GZIP_WRAPPER).decompress(stored, plain_size + 1)


def _lz4(plain: Bytes) -> bytes:
    packed: bytes = lz4.block.compress(plain, store_size=False)
    return packed


def _unlz4(stored: Bytes, plain_size: int) -> bytes:
    plain: bytes = lz4.block.decompress(stored, uncompressed_size=plain_size)
    return plain


def _zstd(plain: Bytes) -> bytes:
    return zstd.ZstdCompressor(level=ZSTD_LEVEL).compress(plain, zstd.ZstdCompressor.FLUSH_FRAME)


def _unzstd(stored: Bytes, plain_size: int) -> bytes:
    return zstd.ZstdDecompressor().decompress(stored, plain_size + 1)


_COMPRESS: Final[dict[Codec, Callable[[Bytes], bytes]]] = {
    Codec.NONE: bytes,
    Codec.GZIP: _gzip,
    Codec.LZ4: _lz4,
    Codec.ZSTD: _zstd,
}
_DECOMPRESS: Final[dict[Codec, Callable[[Bytes, int], bytes]]] = {
    Codec.NONE: lambda stored, _plain_size: bytes(stored),
    Codec.GZIP: _gunzip,
    Codec.LZ4: _unlz4,
    Codec.ZSTD: _unzstd,
}
