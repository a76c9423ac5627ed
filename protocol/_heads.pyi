"""The compiled headers of the consensus framing; explained where they are plain: plain_heads.py."""

from typing import Final

# For the type checker this is the same class as its twin.
from borzoi.protocol.plain_heads import Head as Head

LOOPS_VERSION: Final[int]
