"""The encryption key at the start of the broker: where it comes from, and whether it fits.

The key is given as `system.encryption.key`: base64, in the file or in the environment, which wins
as for every setting. Or it is given as `system.encryption.key_file`, a file that holds the base64
or the 32 bytes themselves. Both may be given if they say the same; if they differ, nothing starts.
The supervisor reads it once: workers get the key from it, in memory only, so that a file that
changes later changes nothing.
"""

import logging
import os
import stat
from typing import Final

from borzoi.shards.metadata_log.sealing import CannotOpenEntry, open_entry
from borzoi.shards.settings.errors import ConfigError
from borzoi.shards.settings.schema import Encryption as EncryptionConfig
from borzoi.shards.settings.schema import System
from borzoi.storage.compressed_log import segment_forms
from borzoi.storage.encrypted import Encryption
from borzoi.storage.encryption_key import (
    KEY_SIZE,
    EncryptionKey,
    InvalidKey,
    KeyRefused,
    compare_check,
    has_check,
    write_check,
)
from borzoi.storage.files import Files
from borzoi.storage.layout import DataLayout
from borzoi.storage.wal import WalDamaged, log_start, read_entries

LOG: Final = logging.getLogger(__name__)

KEY_FILE_SIZE_MAX: Final = 4096


def configured_key(config: EncryptionConfig) -> EncryptionKey | None:
    """The key that the configuration names, None if it names none. ConfigError if it is no key."""
    from_text = None
    if config.key:
        try:
            from_text = EncryptionKey.from_text(config.key)
        except InvalidKey as error:
            raise ConfigError(f"system.encryption.key cannot be used: {error}") from error
    if not config.key_file:
        return from_text
    from_file = _read_key_file(config.key_file)
    if from_text is not None and from_text != from_file:
        raise ConfigError(
            f"system.encryption.key and the file {config.key_file} of system.encryption.key_file"
            " hold different keys: leave one of them out"
        )
    return from_file


def open_encryption(system: System, layout: DataLayout, files: Files) -> Encryption | None:
    """The encryption of this run; KeyRefused if the directory needs another key than there is.

    Ties the directory to the key, durably, before anything is encrypted for the first time.
    """
    key = configured_key(system.encryption)
    compare_check(layout, files, key)
    if key is None:
        return None
    encryption = Encryption(key, encrypts=system.encryption.enabled)
    if encryption.encrypts:
        if not has_check(layout, files):
            _check_metadata(layout, files, encryption)
            _check_segments(layout, files, key)
            write_check(layout, files, key)
            LOG.info("everything that is written from now on is encrypted")
    elif has_check(layout, files):
        LOG.warning(
            "encryption is switched off: what was encrypted stays so and needs the key, but what"
            " is written from now on is in clear"
        )
    return encryption


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


def _check_segments(layout: DataLayout, files: Files, key: EncryptionKey) -> None:
    """All of the metadata may be older than the encryption: then the segments tell."""
    for partition in layout.partition_directories(files):
        try:
            forms = list(segment_forms(partition.path, files))
        except OSError:
            # What cannot be read is recovery's to tell, and is not served.
            continue
        if any(form.header is not None and form.header.key_id != key.id for form in forms):
            raise KeyRefused(
                f"{partition.path} holds segments that were encrypted with another key than the"
                " configured one"
            )


def _read_key_file(path: str) -> EncryptionKey:
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
            return EncryptionKey(data)
        return EncryptionKey.from_text(data.decode("ascii", "replace"))
    except InvalidKey as error:
        raise ConfigError(f"{what}, but what it holds cannot be used: {error}") from error
