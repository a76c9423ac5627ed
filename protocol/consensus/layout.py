"""The header of the consensus framing: where its fields lie.

    request   48 size u32 | 60 kind u8 = 5 | 128 client u128 | 144 request_checksum u128
              168 request u64 | 176 operation u8 | 184 session u64 | 196 code u32
    reply     48 size u32 | 60 kind u8 = 8 | 128 request_checksum u128 | 160 client u128
              176 op u64 | 184 commit u64 | 200 request u64 | 208 operation u8 | 216 status u32

`size` counts header and payload. All other bytes are zero, and not looked at in requests.
"""

import struct
from typing import Final

from borzoi.protocol.consensus.evictions import HEADER_SIZE
from borzoi.protocol.framing import REQUEST_HEADER

__all__ = ["HEADER_SIZE"]

REQUEST: Final = 5
REPLY: Final = 8
FIELDS_AT: Final = 48
FIELDS: Final = struct.Struct("<I8xB67x16s16s8xQB7xQ4xI")
BEGINNING: Final = struct.Struct("<I8xB")
REPLY_LAYOUT: Final = struct.Struct("<48xI8xB67x16s16x16sQQ8xQB7xI36x")
NOT_STAMPED: Final = bytes(16)
STAMP: Final = struct.Struct("<QQ")

# The last bytes of a header are reserved. What a framing has to leave before a payload fits there.
CLASSIC_HEADER_AT: Final = HEADER_SIZE - REQUEST_HEADER.size
