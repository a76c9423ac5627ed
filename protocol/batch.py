"""The loops over messages that lie back to back, in a sent batch or in a segment file.

Everything works in place on a memoryview that the caller owns. The messages themselves are laid
out as drawn in message.py; what is added here is the index, 16 bytes per message:

     0   offset u32      relative to the first offset of the segment
     4   position u32    where the message ends, in bytes from the start of the segment file
     8   timestamp u64   as stamped on the message, but never smaller than the entry before

These are the only places with work per message on the server. They exist twice, compiled and
in plain Python (loops.py says which run). They are described where they are plain:
plain_requests.py, plain_log.py, plain_client.py, plain_seen_ids.py, plain_seals.py. Microseconds
on a busy 2-core cloud machine with Python 3.11, best of 21 runs, compiled / plain; messages have
ids, 1 KB counts the header and 100 B does not:

                                1 x 1 KB       1,000 x 1 KB     1,000 x 100 B
    decode and check a send     1.3 / 3.8        3.7 / 291         4.0 / 263
    stamp                       0.2 / 1.8         33 / 794          19 / 664
    scan a log                  0.5 / 1.5         33 / 1,018        17 / 954
"""

import struct
from typing import Final

from borzoi.protocol.index_entry import INDEX_ENTRY, INDEX_ENTRY_SIZE
from borzoi.protocol.loops import LOOPS
from borzoi.protocol.message import (
    MESSAGE_HEADER_SIZE,
    MESSAGE_PAYLOAD_SIZE_MAX,
    SENT_FIELDS,
    USER_HEADERS_SIZE_MAX,
)
from borzoi.protocol.payload import U64
from borzoi.protocol.plain_log import SEED_SIZE, Scan, random_ids
from borzoi.protocol.plain_requests import POLL_TAIL
from borzoi.protocol.plain_seen_ids import ENTRIES_MAX, Survivors, stamp_duplicates

if LOOPS == "compiled":
    from borzoi.protocol._client import decode_batch, encode_batch, encode_outgoing, sent_index
    from borzoi.protocol._log import (
        RandomIds,
        first_at_or_after,
        first_bad_message,
        matching_messages,
        message_start,
        scan_log,
        stamp_batch,
    )
    from borzoi.protocol._requests import check_sent_batch, find_poll, find_send, read_sent_batch
    from borzoi.protocol._seals import join_plain, join_sealed, split_plain, split_sealed
    from borzoi.protocol._seen_ids import SeenIds, copy_stamps, without_stored
else:
    from borzoi.protocol.plain_client import decode_batch, encode_batch, encode_outgoing, sent_index
    from borzoi.protocol.plain_log import (
        RandomIds,
        first_at_or_after,
        first_bad_message,
        matching_messages,
        message_start,
        scan_log,
        stamp_batch,
    )
    from borzoi.protocol.plain_requests import (
        check_sent_batch,
        find_poll,
        find_send,
        read_sent_batch,
    )
    from borzoi.protocol.plain_seals import join_plain, join_sealed, split_plain, split_sealed
    from borzoi.protocol.plain_seen_ids import SeenIds, copy_stamps, without_stored

__all__ = [
    "ENTRIES_MAX",
    "INDEX_ENTRY",
    "INDEX_ENTRY_SIZE",
    "LOOPS",
    "MESSAGE_HEADER_SIZE",
    "MESSAGE_PAYLOAD_SIZE_MAX",
    "POLL_TAIL",
    "SEED_SIZE",
    "SENT_FIELDS",
    "USER_HEADERS_SIZE_MAX",
    "RandomIds",
    "Scan",
    "SeenIds",
    "Survivors",
    "check_sent_batch",
    "clear_first_checksum",
    "copy_stamps",
    "decode_batch",
    "encode_batch",
    "encode_outgoing",
    "find_poll",
    "find_send",
    "first_at_or_after",
    "first_bad_message",
    "first_stamp",
    "first_stamped_offset",
    "join_plain",
    "join_sealed",
    "matching_messages",
    "message_start",
    "random_ids",
    "read_sent_batch",
    "scan_log",
    "sent_index",
    "split_plain",
    "split_sealed",
    "stamp_batch",
    "stamp_duplicates",
    "without_stored",
]


first_stamp: Final = struct.Struct("<Q16xQ").unpack_from
"""Checksum and offset of the first message; see first_stamped_offset()."""


def first_stamped_offset(batch: memoryview) -> int | None:
    """The offset stamped on the first message, None when the batch was never stamped.

    Only meaningful when clear_first_checksum() was called on the batch as it was received.
    """
    checksum: int
    offset: int
    checksum, offset = first_stamp(batch)
    return offset if checksum else None


def clear_first_checksum(batch: memoryview) -> None:
    """Mark the batch as not stamped yet, whatever the client sent in that field."""
    U64.pack_into(batch, 0, 0)
