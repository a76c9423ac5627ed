"""Small things that are encrypted one by one: commands of the metadata log, and its snapshots.

     0   salt 16 bytes     random
    16   nonce 12 bytes    random
    28   the value, encrypted with AES-256-GCM
     .   tag 16 bytes

Each value has a key of its own, derived with its salt, so salt and nonce together would have to
repeat. These are 224 random bits, drawn for every value, however often the same place of the log is
written again after a crash. There are few of these values, so a derivation for each (20 us) is no
cost.
"""

import os
from collections.abc import Iterable
from contextlib import suppress
from typing import Final, NamedTuple

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from borzoi.storage.encryption_key import SALT_SIZE, EncryptionKey
from borzoi.storage.segment_form import NONCE_SIZE, TAG_SIZE

BODY_AT: Final = SALT_SIZE + NONCE_SIZE
VALUE_OVERHEAD: Final = BODY_AT + TAG_SIZE


class CannotOpenValue(Exception):
    """A value is damaged, changed, moved or of another key; which of these is unknown."""


def seal_value(key: EncryptionKey, purpose: bytes, value: bytes, bound_to: bytes) -> bytes:
    """Encrypt a value; it opens only together with `bound_to`, which stays in clear elsewhere."""
    salt, nonce = os.urandom(SALT_SIZE), os.urandom(NONCE_SIZE)
    return salt + nonce + AESGCM(key.derive(salt, purpose)).encrypt(nonce, value, bound_to)


class OpenedValue(NamedTuple):
    """A value in clear, and the key that has opened it."""

    value: bytes
    key: EncryptionKey


def open_value(
    keys: Iterable[EncryptionKey], purpose: bytes, sealed: bytes, bound_to: bytes
) -> OpenedValue:
    """What seal_value was given, or CannotOpenValue.

    A value does not say which of the keys it needs: they are tried in turn.
    """
    if len(sealed) < VALUE_OVERHEAD:
        raise CannotOpenValue(f"{len(sealed)} bytes are too few")
    salt, nonce, body = sealed[:SALT_SIZE], sealed[SALT_SIZE:BODY_AT], sealed[BODY_AT:]
    for key in keys:
        with suppress(InvalidTag):
            aead = AESGCM(key.derive(salt, purpose))
            return OpenedValue(aead.decrypt(nonce, body, bound_to), key)
    raise CannotOpenValue("it does not open with the configured key")
