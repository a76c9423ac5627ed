"""The key file as a command changes it: in one step, with the mode and the owner it had."""

import base64
import os
from collections.abc import Sequence
from pathlib import Path

from borzoi.shards.settings.errors import ConfigError
from borzoi.storage.encryption_key import KEY_SIZE, EncryptionKey


def new_key() -> EncryptionKey:
    """A key of random bytes."""
    return EncryptionKey(os.urandom(KEY_SIZE))


def write_keys_to(path: Path, keys: Sequence[EncryptionKey]) -> None:
    """Put these keys into the file, one in a line, that of now first. Durable. ConfigError."""
    text = b"".join(base64.b64encode(key.secret_bytes()) + b"\n" for key in keys)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        status = path.stat()
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with open(fd, "wb") as file:
                os.fchown(fd, status.st_uid, status.st_gid)
                os.fchmod(fd, status.st_mode & 0o7777)
                file.write(text)
                file.flush()
                os.fsync(fd)
            os.rename(temporary, path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}") from error
