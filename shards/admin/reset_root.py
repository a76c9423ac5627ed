"""A new password for the root user of a broker that is stopped: `borzoi reset-root`.

The right to read and write the data directory is all it needs. The change goes through the metadata
log like every other one, under the lock of the directory, so a running broker is never touched.
Root is active afterwards, whatever it was before.
"""

import os
import time
from pathlib import Path

from borzoi.protocol.commands.users import UpdateUser
from borzoi.protocol.permissions import UserStatus
from borzoi.shards.decisions.commands import SetPasswordHash
from borzoi.shards.decisions.decide import MetadataCommand, MetadataSettings
from borzoi.shards.directory.key import open_encryption
from borzoi.shards.directory.lock import lock_data_directory
from borzoi.shards.identity.credentials import PASSWORD_LENGTH
from borzoi.shards.identity.passwords import hash_password
from borzoi.shards.identity.root_account import forget_root_password
from borzoi.shards.metadata.state import ROOT_USER_ID
from borzoi.shards.metadata_log.writer import MetadataWriter, open_writer
from borzoi.shards.settings.errors import ConfigError
from borzoi.shards.settings.schema import Config
from borzoi.storage.encrypted import Encryption
from borzoi.storage.encryption_key import KeyRefused
from borzoi.storage.files import Files
from borzoi.storage.layout import DataLayout
from borzoi.storage.wal import WalDamaged


def check_new_password(password: str) -> None:
    """ConfigError unless root may have this password. It stays out of the message."""
    length = len(password.encode(errors="surrogateescape"))
    if length not in PASSWORD_LENGTH:
        raise ConfigError(
            f"the new password has {length} bytes: needs {PASSWORD_LENGTH.start} to"
            f" {PASSWORD_LENGTH.stop - 1}"
        )


def reset_root(config: Config, password: str) -> str:
    """Set the root password; the name of the root user. Durable when it returns."""
    system = config.system
    data = Path(system.path)
    layout = DataLayout(data, system.stream.path, system.topic.path, system.partition.path)
    if not Path(layout.state_log).exists():
        raise ConfigError(f"system.path is {data}: there is no metadata log of a broker in it")
    lock_fd = lock_data_directory(data)
    try:
        encryption = open_encryption(system, layout, Files())
        return _reset(layout, system.segment.size, password, encryption)
    except (WalDamaged, KeyRefused) as error:
        raise ConfigError(str(error)) from error
    finally:
        os.close(lock_fd)


def _reset(
    layout: DataLayout, segment_size: int, password: str, encryption: Encryption | None
) -> str:
    writer = open_writer(
        layout.state_log,
        layout.state_snapshot,
        Files(),
        MetadataSettings(segment_size),
        encryption=encryption,
    )
    try:
        root = writer.state.users.get(ROOT_USER_ID)
        if root is None:
            raise ConfigError(f"{layout.state_log} holds no root user")
        if root.status != UserStatus.ACTIVE:
            _log(writer, UpdateUser(ROOT_USER_ID, status=UserStatus.ACTIVE))
        _log(writer, SetPasswordHash(ROOT_USER_ID, hash_password(password), root.password_hash))
        forget_root_password(Path(layout.root))
        return root.username
    finally:
        writer.close()


def _log(writer: MetadataWriter, command: MetadataCommand) -> None:
    writer.append(writer.prepare(command, user_id=ROOT_USER_ID, timestamp=time.time_ns() // 1000))
    writer.sync()
    writer.applied()
