"""The encryption keys at the start of the broker: where they come from, and whether they fit.

The key is given as `system.encryption.key`: base64, in the file or in the environment, which wins
as for every setting. Or it is given as `system.encryption.key_file`, a file that holds the base64
or the 32 bytes themselves. Both may be given if they say the same; if they differ, nothing starts.
The supervisor reads it: workers get the key from it, in memory only, so that a file that changes
later changes nothing until `borzoi encryption rotate` asks for it.

Keys of before, which open what was encrypted with them, are further lines of that file, or
`system.encryption.old_keys`, with commas between them. The first key is the one that encrypts.
Where it is not the one that encrypted last, the key is exchanged (docs/adr/0021).
"""

import logging
import os
import stat
from collections.abc import Mapping, Sequence
from typing import Final

from borzoi.shards.metadata_log.sealing import CannotOpenEntry, open_entry
from borzoi.shards.settings.errors import ConfigError
from borzoi.shards.settings.schema import Encryption as EncryptionConfig
from borzoi.shards.settings.schema import System
from borzoi.storage.encrypted import Encryption
from borzoi.storage.encryption_key import (
    KEY_SIZE,
    EncryptionKey,
    InvalidKey,
    KeyRefused,
    compare_check,
    write_check,
)
from borzoi.storage.files import Files
from borzoi.storage.layout import DataLayout
from borzoi.storage.used_keys import NO_KEY, used_by_segments
from borzoi.storage.wal import WalDamaged, log_start, read_entries

LOG: Final = logging.getLogger(__name__)

KEY_FILE_SIZE_MAX: Final = 4096


def configured_keys(config: EncryptionConfig) -> list[EncryptionKey]:
    """The keys that the configuration names, that of now first. ConfigError if one is no key."""
    found = _keys_of("system.encryption.key", config.key)[:1]
    if config.key_file:
        from_file = read_key_file(config.key_file)
        if found and found[0] != from_file[0]:
            raise ConfigError(
                f"system.encryption.key and the file {config.key_file} of"
                " system.encryption.key_file hold different keys: leave one of them out"
            )
        found = from_file
    old = _keys_of("system.encryption.old_keys", config.old_keys)
    if old and not found:
        raise ConfigError("system.encryption.old_keys without system.encryption.key: needs both")
    return list(dict.fromkeys((*found, *old)))


def _keys_of(name: str, text: str) -> list[EncryptionKey]:
    try:
        return [EncryptionKey.from_text(one) for one in text.split(",") if one.strip()]
    except InvalidKey as error:
        raise ConfigError(f"{name} cannot be used: {error}") from error


def open_encryption(system: System, layout: DataLayout, files: Files) -> Encryption | None:
    """The encryption of this run; KeyRefused if the directory needs another key than there is.

    Ties the directory to the key, durably, before anything is encrypted for the first time.
    """
    keys = configured_keys(system.encryption)
    needed = compare_check(layout, files, keys)
    if not keys:
        return None
    if not system.encryption.enabled:
        if needed:
            LOG.warning(
                "encryption is switched off: what was encrypted stays so and needs the key, but"
                " what is written from now on is in clear"
            )
        # What is compressed stays encrypted, with the key that the directory knows.
        return encryption_of(keys, needed, encrypts=False)
    encryption = Encryption(keys[0], encrypts=True, old=keys[1:])
    if not needed:
        _check_metadata(layout, files, encryption)
        # What cannot be read is recovery's to tell, and is not served.
        used = used_by_segments(layout, files, skips_unreadable=True)
        _refuse_foreign(used, encryption)
        # Of old keys the metadata does not tell which it needs: all of them, for the time being.
        holds_any = any(used) or os.path.exists(layout.state_log)
        write_check(layout, files, keys if holds_any else keys[:1])
        LOG.info("everything that is written from now on is encrypted")
    elif needed[0] != keys[0]:
        exchange(layout, files, keys[0], needed)
    return encryption


def encryption_of(
    keys: Sequence[EncryptionKey], needed: Sequence[EncryptionKey], *, encrypts: bool
) -> Encryption:
    """The encryption by the key that the directory knows as that of now, or by the first."""
    first = needed[0] if needed else keys[0]
    return Encryption(first, encrypts=encrypts, old=[key for key in keys if key != first])


def exchange(
    layout: DataLayout, files: Files, key: EncryptionKey, needed: Sequence[EncryptionKey]
) -> None:
    """Note, durably, that the directory needs this key from now on, beside those of before."""
    write_check(layout, files, [key, *(one for one in needed if one != key)])
    LOG.info(
        "the encryption key is exchanged: from now on it is %s; the data of %s is encrypted again"
        " in the background, and needs the old key until then",
        key.id.hex(),
        ", ".join(one.id.hex() for one in needed if one != key),
    )


def _check_metadata(layout: DataLayout, files: Files, encryption: Encryption) -> None:
    """The check may have been lost: do not tie the directory to a key that does not open it."""
    try:
        fd = files.open(layout.state_log, os.O_RDONLY)
    except FileNotFoundError:
        return
    try:
        start = log_start(files, layout.state_log)
        for entry, _ in read_entries(files, fd, start, files.size(fd), name=layout.state_log):
            open_entry(entry, encryption)
    except CannotOpenEntry as error:
        raise KeyRefused(str(error)) from error
    except WalDamaged:
        # Torn, or worse: the metadata writer tells, and mends what can be mended.
        return
    finally:
        files.close(fd)


def _refuse_foreign(used: Mapping[bytes, object], encryption: Encryption) -> None:
    """All of the metadata may be older than the encryption: then the segments tell."""
    encrypted = [key_id for key_id in used if key_id != NO_KEY]
    foreign = [key_id.hex() for key_id in encrypted if encryption.key_of(key_id) is None]
    if foreign:
        raise KeyRefused(
            "there are segments that were encrypted with another key than the configured one:"
            f" {', '.join(foreign)}"
        )


def read_key_file(path: str) -> list[EncryptionKey]:
    """The keys of a key file, that of now first, at least one. ConfigError."""
    what = f"system.encryption.key_file is {path}"
    try:
        with open(path, "rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            data = file.read(KEY_FILE_SIZE_MAX + 1)
    except OSError as error:
        raise ConfigError(f"{what}: {error.strerror}") from error
    if mode & (stat.S_IRGRP | stat.S_IROTH):
        LOG.warning("%s, which others than its owner can read", what)
    try:
        if len(data) == KEY_SIZE:
            return [EncryptionKey(data)]
        lines = data.decode("ascii", "replace").splitlines()
        written = [line for line in lines if line.strip() and not line.startswith("#")]
        return [EncryptionKey.from_text(line) for line in written or [""]]
    except InvalidKey as error:
        raise ConfigError(f"{what}, but what it holds cannot be used: {error}") from error
