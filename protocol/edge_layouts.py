"""How messages of other client generations are laid out, and which bounds hold at that edge.

Messages are stored as message.py draws them. Three other layouts exist. Clients of the consensus
framing send one batch, and are shown batch records of the same form: 256 bytes, then frames.

     0   partition_id u64        0 in a request
     8   base_offset u64         of the first message; 0 in a request
    16   base_timestamp u64      of the server, one for the whole record; 0 in a request
    24   origin_timestamp u64    the smallest in the batch
    32   batch_length u64        of header and frames together
    40   batch_checksum u64      XXH3-64 of the fields before and behind it, then of the checksum
                                 of every frame
    48   message_count u32
    52   reserved                204 zero bytes

    A frame:
     0   checksum u64            XXH3-64 of everything behind this field, to the end of the frame
     8   id u128                 never 0
    24   offset_delta u32        0, 1, 2 ...
    28   timestamp_delta u32     origin timestamp of the message minus that of the batch
    32   user_headers_length u32
    36   payload_length u32
    40   reserved u64            0
    48   payload, user headers

Old clients (SDK up to 0.6) send `id u128 | user_headers_length u32 | user headers |
payload_length u32 | payload`, and are shown

     0   offset u64
     8   state u8                1
     9   timestamp u64
    17   id u128
    33   checksum u32            CRC-32 of the payload
    37   user_headers_length u32
    41   user headers
     +   payload_length u32
     +   payload

Clients in between (SDK 0.7 and 0.8) have the header of message.py without its last, reserved
field: 56 bytes. User headers of the last two have bare keys (bare_headers.py).
"""

import struct
from enum import IntEnum
from typing import Final


class EdgeLayout(IntEnum):
    """What the messages of a poll are turned into."""

    CONSENSUS = 1
    OLD = 2
    SHORT = 3  # heads of 56 bytes


# Partition, base offset, base timestamp, origin timestamp, length, checksum, count.
BATCH_HEADER: Final = struct.Struct("<QQQQQQI204s")
BATCH_HEADER_SIZE: Final = BATCH_HEADER.size
NO_RESERVED: Final = bytes(204)
# What the batch checksum covers of the header.
BATCH_CHECKED: Final = struct.Struct("<QQQQQI")

# Checksum, id, offset delta, timestamp delta, user headers length, payload length, reserved.
FRAME_HEADER: Final = struct.Struct("<Q16sIIIIQ")
FRAME_HEADER_SIZE: Final = FRAME_HEADER.size

OLD_SENT_HEADER: Final = struct.Struct("<16sI")  # id, user headers length
OLD_SENT_SIZE_MIN: Final = OLD_SENT_HEADER.size + 4

# Offset, state, timestamp, id, checksum, user headers length.
OLD_SHOWN_HEADER: Final = struct.Struct("<QBQ16sII")
OLD_SHOWN_SIZE_MIN: Final = OLD_SHOWN_HEADER.size + 4
AVAILABLE: Final = 1

# Checksum, id, offset, timestamp, origin timestamp, user headers length, payload length.
SHORT_HEADER: Final = struct.Struct("<Q16sQQQII")
SHORT_HEADER_SIZE: Final = SHORT_HEADER.size

RECORD_SIZE_MAX: Final = 128 * 1024
"""Of a batch record, header included, unless a single message needs more."""

PIECE_SIZE_MAX: Final = 128 * 1024
"""Stored bytes that are converted at once, unless a single message needs more. So many are still in
the processor's cache when they are sent, and are sent while the next ones are converted."""
