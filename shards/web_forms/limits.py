"""What an HTTP peer may take of a shard. Each bound has a test."""

from typing import Final

from borzoi.quantities import KIB, MIB

LINE_SIZE_MAX: Final = 8190
"""Bytes of the first line of a request; a longer one is answered with 400."""

HEADER_SIZE_MAX: Final = 8190
"""Bytes of one header."""

HEADERS_MAX: Final = 64
"""Headers of a request."""

HEAD_TIME_MAX_S: Final = 10.0
"""From the first byte of a request to the last of its headers."""

IDLE_TIME_MAX_S: Final = 75.0
"""Between two requests of a connection whose peer has shown a token."""

LINGER_TIME_S: Final = 2.0
"""So long a body that is not wanted is read and thrown away, for its sender to see the answer."""

BODIES_SIZE_MIN: Final = 64 * MIB
"""Bytes of all request bodies of a shard at one time, shared by user; at least four of the largest
that is allowed."""

BODIES_LARGEST: Final = 4

PIECE_SIZE: Final = 256 * KIB
"""A large answer is written in pieces of about this size, each when the one before has left."""

TOKENS_KEPT_MAX: Final = 4096
"""Tokens whose signature is not checked again."""

TOKEN_SIZE_MAX: Final = 4096
"""Characters of a token; the header that carries it is bounded anyway."""

REVOKED_PER_USER_MAX: Final = 1000
"""Tokens of one user that are withdrawn and not expired yet; one more is answered with 429."""
