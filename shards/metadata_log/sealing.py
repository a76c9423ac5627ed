"""Commands of the metadata log, encrypted and decrypted.

An encrypted entry says so in its flags; index, time and user stay in clear and are bound to the
command, so that it opens nowhere else in the log. The log's checksum is over what is stored, so
verifying the log needs no key. Old entries stay as they were written: a log may hold both
kinds.
"""

import struct
from dataclasses import replace
from typing import Final

from borzoi.storage.encrypted import Encryption
from borzoi.storage.encrypted_values import (
    CannotOpenValue,
    OpenedValue,
    open_value,
    seal_value,
)
from borzoi.storage.encryption_key import EncryptionKey
from borzoi.storage.wal import WalDamaged, WalEntry

ENCRYPTED: Final = 1 << 8
PURPOSE: Final = b"metadata command"
BOUND: Final = struct.Struct("<QQQII")  # what the entry has in clear


class CannotOpenEntry(WalDamaged):
    """An entry is encrypted and does not open; the text says what is known about the reason."""


class KeyMissing(CannotOpenEntry):
    """There is no key to open it with."""


def seal_entry(entry: WalEntry, encryption: Encryption | None) -> WalEntry:
    """The entry as it is to be stored."""
    if encryption is None or not encryption.encrypts:
        return entry
    entry = replace(entry, flags=entry.flags | ENCRYPTED)
    sealed = seal_value(encryption.key, PURPOSE, entry.command, _bound(entry))
    return replace(entry, command=sealed)


def key_of_entry(entry: WalEntry, encryption: Encryption) -> EncryptionKey | None:
    """The key that opens an entry, None if it is in clear. CannotOpenEntry if none does."""
    return _opened(entry, encryption).key if entry.flags & ENCRYPTED else None


def open_entry(entry: WalEntry, encryption: Encryption | None) -> WalEntry:
    """The entry with its command in clear, whether or not it was encrypted."""
    if not entry.flags & ENCRYPTED:
        return entry
    if encryption is None:
        raise KeyMissing(
            f"entry {entry.index} of the metadata log is encrypted, and no key is configured: set"
            " system.encryption.key or system.encryption.key_file"
        )
    command = _opened(entry, encryption).value
    return replace(entry, flags=entry.flags & ~ENCRYPTED, command=command)


def _opened(entry: WalEntry, encryption: Encryption) -> OpenedValue:
    try:
        return open_value(encryption.keys, PURPOSE, entry.command, _bound(entry))
    except CannotOpenValue as error:
        raise CannotOpenEntry(
            f"entry {entry.index} of the metadata log was changed, or encrypted with another key:"
            f" {error}"
        ) from error


def _bound(entry: WalEntry) -> bytes:
    return BOUND.pack(entry.index, entry.term, entry.timestamp, entry.user_id, entry.flags)
