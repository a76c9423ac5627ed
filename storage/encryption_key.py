"""The key of encryption at rest, and how a data directory recognises it.

The configured key encrypts nothing itself. What is encrypted gets keys of its own, derived from it
(HKDF-SHA-256) for a purpose and with a random salt that lies beside the encrypted bytes.

The file `encryption-check` tells whether a key is the right one, without telling the key:

     0   magic 8 bytes
     8   salt 16 bytes       random
    24   check 32 bytes      derived from the key and the salt
    56   checksum u64        XXH3-64 of the bytes above

It is written before anything is encrypted for the first time, and stays. From then on the directory
can only be opened with that key, also when encryption is switched off again.

While a key is exchanged (docs/adr/0021) the directory needs several, the newest first. Then each
has its salt and check, behind another magic; the checksum comes last. With one key left the file is
again as above. A key that is not there is named by its id, which tells nothing about the key.

     0   magic 8 bytes
     8   key id 8 bytes | salt 16 bytes | check 32 bytes      for each key
     .   checksum u64
"""

import base64
import binascii
import hmac
import os
import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

import xxhash
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from borzoi.storage.files import Files
from borzoi.storage.layout import DataLayout

KEY_SIZE: Final = 32
KEY_ID_SIZE: Final = 8
SALT_SIZE: Final = 16
MAGIC: Final = b"BZKEYCK1"
SEVERAL_MAGIC: Final = b"BZKEYCK2"
RECORD: Final = struct.Struct(f"<{SALT_SIZE}s{KEY_SIZE}s")
NAMED_RECORD: Final = struct.Struct(f"<{KEY_ID_SIZE}s{SALT_SIZE}s{KEY_SIZE}s")
CHECKSUM: Final = struct.Struct("<Q")
KEYS_MAX: Final = 64
PURPOSE: Final = b"key check"
CHECK_SIZE_MAX: Final = len(MAGIC) + KEYS_MAX * NAMED_RECORD.size + CHECKSUM.size


class InvalidKey(Exception):
    """These bytes cannot be a key. The text never shows them."""


class KeyRefused(Exception):
    """The data directory must not be opened with this key, or with none; the text says why."""


class EncryptionKey:
    """32 secret bytes. Shows itself nowhere."""

    __slots__ = ("_key", "id")

    def __init__(self, key: bytes) -> None:
        if len(key) != KEY_SIZE:
            raise InvalidKey(f"it has {len(key)} bytes, {KEY_SIZE} are needed")
        self._key = key
        self.id = self.derive(b"", b"key id")[:KEY_ID_SIZE]

    @classmethod
    def from_text(cls, text: str) -> "EncryptionKey":
        """The key that is written as base64."""
        try:
            key = base64.b64decode(text.strip(), validate=True)
        except (binascii.Error, ValueError) as error:
            raise InvalidKey(f"it is not the base64 of {KEY_SIZE} bytes") from error
        return cls(key)

    def derive(self, salt: bytes, purpose: bytes) -> bytes:
        """A key for one purpose; nothing can be learned from it about any other."""
        info = b"borzoi " + purpose
        return HKDF(algorithm=SHA256(), length=KEY_SIZE, salt=salt, info=info).derive(self._key)

    def secret_bytes(self) -> bytes:
        """The key itself, for the way to a worker. Never log it."""
        return self._key

    def __eq__(self, other: object) -> bool:
        return isinstance(other, EncryptionKey) and hmac.compare_digest(self._key, other._key)

    def __hash__(self) -> int:
        return hash(self.id)

    def __repr__(self) -> str:
        return "EncryptionKey(******)"


class KeyCheck(NamedTuple):
    """By this a key that the directory needs is recognised."""

    key_id: bytes  # empty in a file with one key
    salt: bytes
    check: bytes

    @classmethod
    def of(cls, key: EncryptionKey) -> "KeyCheck":
        """A new check of a key."""
        salt = os.urandom(SALT_SIZE)
        return cls(key.id, salt, key.derive(salt, PURPOSE))

    def is_of(self, key: EncryptionKey) -> bool:
        """Whether this is the key that is meant."""
        return hmac.compare_digest(self.check, key.derive(self.salt, PURPOSE))


def has_check(layout: DataLayout, files: Files) -> bool:
    """Whether something in this directory was ever encrypted."""
    return files.read_all(layout.encryption_check_file, 0) is not None


def write_check(layout: DataLayout, files: Files, keys: Sequence[EncryptionKey]) -> None:
    """Tie the directory to these keys, the newest first. Durable when it returns."""
    checks = [KeyCheck.of(key) for key in keys]
    if len(checks) == 1:
        data = MAGIC + RECORD.pack(*checks[0][1:])
    else:
        data = SEVERAL_MAGIC + b"".join(NAMED_RECORD.pack(*check) for check in checks)
    data += CHECKSUM.pack(xxhash.xxh3_64_intdigest(data))
    files.write_atomically(layout.encryption_check_file, data)


def compare_check(
    layout: DataLayout, files: Files, keys: Sequence[EncryptionKey]
) -> list[EncryptionKey]:
    """Those of the keys that the directory needs, the newest first; none if it was never tied.

    KeyRefused if one of them is not there.
    """
    path = layout.encryption_check_file
    if not has_check(layout, files):
        return []
    if not keys:
        raise KeyRefused(
            f"{layout.root} holds encrypted data, and no key is configured: set"
            " system.encryption.key or system.encryption.key_file to the key it was encrypted with"
        )
    checks = _read_checks(layout, files)
    if not checks:
        raise KeyRefused(
            f"{path} is damaged, so it cannot tell whether the key is the right one. Restore it"
            " from a backup. If you are sure of the key, remove the file: it is written again if"
            " metadata and segments were encrypted with it"
        )
    found = [next((key for key in keys if check.is_of(key)), None) for check in checks]
    if found[0] is None and len(checks) == 1:
        raise KeyRefused(
            f"the configured encryption key is not the one that {layout.root} was encrypted with:"
            " start with the old one. To exchange it, put the new key in front of it, in the file"
            " of system.encryption.key_file or with the old one in system.encryption.old_keys"
        )
    missing = [check.key_id.hex() for check, key in zip(checks, found, strict=True) if key is None]
    if missing:
        raise KeyRefused(
            f"{layout.root} still holds data that was encrypted with the key {', '.join(missing)},"
            " which is not configured: put it back, as a further line in the file of"
            " system.encryption.key_file or into system.encryption.old_keys"
        )
    return [key for key in found if key is not None]


def is_check_damaged(layout: DataLayout, files: Files) -> bool:
    """Whether there is a check that cannot be used any more."""
    return has_check(layout, files) and not _read_checks(layout, files)


def _read_checks(layout: DataLayout, files: Files) -> list[KeyCheck]:
    """The checks of all keys, none if the file is damaged."""
    data = files.read_all(layout.encryption_check_file, CHECK_SIZE_MAX) or b""
    body = data[: -CHECKSUM.size]
    if len(data) < CHECKSUM.size or data[len(body) :] != CHECKSUM.pack(
        xxhash.xxh3_64_intdigest(body)
    ):
        return []
    magic, records = body[: len(MAGIC)], body[len(MAGIC) :]
    if magic == MAGIC and len(records) == RECORD.size:
        return [KeyCheck(b"", *RECORD.unpack(records))]
    if magic == SEVERAL_MAGIC and len(records) % NAMED_RECORD.size == 0:
        return [KeyCheck(*fields) for fields in NAMED_RECORD.iter_unpack(records)]
    return []
