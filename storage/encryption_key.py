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
"""

import base64
import binascii
import hmac
import os
import struct
from typing import Final

import xxhash
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from borzoi.storage.files import Files
from borzoi.storage.layout import DataLayout

KEY_SIZE: Final = 32
KEY_ID_SIZE: Final = 8
SALT_SIZE: Final = 16
MAGIC: Final = b"BZKEYCK1"
CHECK: Final = struct.Struct(f"<{len(MAGIC)}s{SALT_SIZE}s{KEY_SIZE}s")
CHECKSUM: Final = struct.Struct("<Q")


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


def has_check(layout: DataLayout, files: Files) -> bool:
    """Whether something in this directory was ever encrypted."""
    return files.read_all(layout.encryption_check_file, 0) is not None


def write_check(layout: DataLayout, files: Files, key: EncryptionKey) -> None:
    """Tie the directory to a key. Durable when it returns."""
    salt = os.urandom(SALT_SIZE)
    data = CHECK.pack(MAGIC, salt, key.derive(salt, b"key check"))
    data += CHECKSUM.pack(xxhash.xxh3_64_intdigest(data))
    files.write_atomically(layout.encryption_check_file, data)


def compare_check(layout: DataLayout, files: Files, key: EncryptionKey | None) -> None:
    """KeyRefused unless the directory was never tied to a key, or to this one."""
    path = layout.encryption_check_file
    if not has_check(layout, files):
        return
    if key is None:
        raise KeyRefused(
            f"{layout.root} holds encrypted data, and no key is configured: set"
            " system.encryption.key or system.encryption.key_file to the key it was encrypted with"
        )
    body = _read_check(layout, files)
    if body is None:
        raise KeyRefused(
            f"{path} is damaged, so it cannot tell whether the key is the right one. Restore it"
            " from a backup. If you are sure of the key, remove the file: it is written again if"
            " metadata and segments were encrypted with it"
        )
    _, salt, check = CHECK.unpack(body)
    if not hmac.compare_digest(check, key.derive(salt, b"key check")):
        raise KeyRefused(
            f"the configured encryption key is not the one that {layout.root} was encrypted with"
            " (a key cannot be exchanged later: start with the old one)"
        )


def is_check_damaged(layout: DataLayout, files: Files) -> bool:
    """Whether there is a check that cannot be used any more."""
    return has_check(layout, files) and _read_check(layout, files) is None


def _read_check(layout: DataLayout, files: Files) -> bytes | None:
    """The check without its checksum, None if it is damaged."""
    data = files.read_all(layout.encryption_check_file, CHECK.size + CHECKSUM.size) or b""
    body = data[: CHECK.size]
    if (
        len(data) != CHECK.size + CHECKSUM.size
        or not data.startswith(MAGIC)
        or CHECKSUM.unpack_from(data, CHECK.size)[0] != xxhash.xxh3_64_intdigest(body)
    ):
        return None
    return body
