"""Tokens of the QUIC door: that an address is a client's, and that a connection is gone.

A **retry token** goes to the address that an Initial names, and comes back only if the client is
there. It holds what is needed to go on and a keyed hash over that and the address, so nothing is
kept for an address before it has answered. A **reset token** goes to a client when it connects; a
packet that ends with it says that the connection is not known here any more. It follows from the
key of the certificate, so the successor of a worker that died can make it.

    retry token   time u32 | original_id_length u8, original id | retry id, 8 bytes | hash, 16 bytes

Pure: the clock comes in as a parameter.
"""

import hashlib
import hmac
import os
import struct
from typing import Final, NamedTuple

from borzoi.shards.datagrams.packets import CONNECTION_ID_SIZE, FOREIGN_ID_SIZE_MAX

TOKEN_AGE_MAX_S: Final = 15
"""So long after a retry its token is taken: a client answers within a round trip."""

HASH_SIZE: Final = 16
HEAD: Final = struct.Struct("<IB")
Address = tuple[str, int]


class Validated(NamedTuple):
    """What a client has brought back: the ids of its first packet and of the retry."""

    original: bytes
    retry: bytes


class RetryTokens:
    """Makes and checks retry tokens. Its key lives as long as this process."""

    def __init__(self, key: bytes | None = None) -> None:
        self._key = os.urandom(32) if key is None else key

    def make(self, address: Address, original: bytes, retry: bytes, now: float) -> bytes:
        """A token for the client at this address."""
        said = HEAD.pack(int(now) & 0xFFFFFFFF, len(original)) + original + retry
        return said + self._hash(address, said)

    def check(self, address: Address, token: bytes, now: float) -> Validated | None:
        """What a token says; None if it is of another address, too old, or not ours."""
        said, found = token[:-HASH_SIZE], token[-HASH_SIZE:]
        if len(said) < HEAD.size or not hmac.compare_digest(found, self._hash(address, said)):
            return None
        made, size = HEAD.unpack_from(said)
        assert size <= FOREIGN_ID_SIZE_MAX, "only ids of packets are written into a token"
        age = (int(now) - made) & 0xFFFFFFFF
        if age > TOKEN_AGE_MAX_S:
            return None
        at = HEAD.size + size
        return Validated(said[HEAD.size : at], said[at : at + CONNECTION_ID_SIZE])

    def _hash(self, address: Address, said: bytes) -> bytes:
        where = f"{address[0]}|{address[1]}|".encode()
        return hashlib.blake2s(where + said, key=self._key, digest_size=HASH_SIZE).digest()


class ResetTokens:
    """Makes the reset token of a connection id. `secret` is the key of a certificate."""

    def __init__(self, secret: bytes) -> None:
        self._key = hashlib.blake2s(secret, person=b"bz-reset").digest()

    def of(self, connection_id: bytes) -> bytes:
        """Of one id, the same as long as the certificate is."""
        return hashlib.blake2s(connection_id, key=self._key, digest_size=HASH_SIZE).digest()
