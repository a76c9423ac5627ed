"""Many datagrams in one call of the kernel, each way: a call costs more than the packets in it.

A long buffer is sent as datagrams of one size (UDP_SEGMENT), and datagrams of one sender that
arrive together are received as one buffer (UDP_GRO). Both are options of Linux; without them each
datagram takes a call.
"""

import socket
import struct
from collections.abc import Iterable, Sequence
from typing import Final

RECEIVED_SIZE_MAX: Final = 65536
ANCILLARY_SIZE: Final = 128
RECEIVES_PER_TURN_MAX: Final = 16
"""Calls in one turn of the loop; each may bring some forty datagrams."""

BUFFER_SIZE: Final = 4 << 20
"""What is asked for in the kernel, each way; it grants less if its limits say so."""

SEGMENTS_MAX: Final = 40
SENT_SIZE_MAX: Final = 60_000
"""Of one call: a datagram with its headers has to fit into 64 KiB."""

SOL_UDP: Final = 17
UDP_SEGMENT: Final = 103
UDP_GRO: Final = 104
U16: Final = struct.Struct("=H")
U32: Final = struct.Struct("=i")

Ancillary = tuple[int, int, bytes]


def try_option(opened: socket.socket, level: int, option: int, value: int = 1) -> bool:
    """Set an option of a socket; whether the kernel has it."""
    try:
        opened.setsockopt(level, option, value)
    except OSError:
        return False
    return True


def runs_of(datagrams: Sequence[bytes]) -> list[Sequence[bytes]]:
    """The same in groups of one size, of which the last datagram may be shorter."""
    runs: list[Sequence[bytes]] = []
    start = 0
    while start < len(datagrams):
        size = len(datagrams[start])
        count_max = max(1, min(SEGMENTS_MAX, SENT_SIZE_MAX // size))
        end = start + 1
        while end < len(datagrams) and end - start < count_max and len(datagrams[end]) <= size:
            end += 1
            if len(datagrams[end - 1]) < size:
                break
        runs.append(datagrams[start:end])
        start = end
    return runs


def segmented(run: Sequence[bytes]) -> list[Ancillary]:
    """What is sent along with a run, so that it leaves as the datagrams that it is made of."""
    return [(SOL_UDP, UDP_SEGMENT, U16.pack(len(run[0])))] if len(run) > 1 else []


def cut(data: bytes, ancillary: Iterable[Ancillary]) -> list[bytes]:
    """The datagrams that were received as one buffer."""
    size = len(data)
    for level, kind, value in ancillary:
        if level == SOL_UDP and kind == UDP_GRO:
            (size,) = U32.unpack_from(value)
    if size >= len(data):
        return [data] if data else []
    return [data[at : at + size] for at in range(0, len(data), size)]
