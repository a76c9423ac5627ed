"""An entry of an index, 16 bytes, one for each message; drawn in batch.py."""

import struct
from typing import Final

INDEX_ENTRY: Final = struct.Struct("<IIQ")  # offset, end of the message, timestamp
INDEX_ENTRY_SIZE: Final = INDEX_ENTRY.size
