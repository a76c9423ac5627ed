"""The first user: the rules of the first boot, and the file that keeps a generated password.

decide_root is pure. The file lies in the data directory, readable by its owner alone, until the
first change of the root password. Archives and snapshots leave it out by its name. Always: a broker
that others can reach never starts with a well-known password, unless its start asks for that.
"""

from __future__ import annotations

import logging
import os
import secrets
import string
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from borzoi.shards.identity.credentials import PASSWORD_LENGTH, USERNAME_LENGTH
from borzoi.shards.settings.errors import ConfigError

LOG: Final = logging.getLogger(__name__)

USERNAME_VARIABLE: Final = "IGGY_ROOT_USERNAME"
PASSWORD_VARIABLE: Final = "IGGY_ROOT_PASSWORD"
DEFAULT_USERNAME: Final = "iggy"
DEFAULT_PASSWORD: Final = "iggy"

GENERATED_LENGTH: Final = range(20, 40)

GENERATED_PREFIX: Final = "Generated root user password: "
ROOT_PASSWORD_FILE: Final = "root_password"
OWNER_ONLY: Final = 0o600


@dataclass(frozen=True)
class RootAccount:
    """`store_password_file`: the password was generated; print it once and keep it in the file."""

    username: str
    password: str = field(repr=False)
    warning: str | None
    store_password_file: bool

    @property
    def is_well_known(self) -> bool:
        """Whether everybody knows the name and the password."""
        return (self.username, self.password) == (DEFAULT_USERNAME, DEFAULT_PASSWORD)


def random_password() -> str:
    """A password of 20 to 39 letters and digits: at least 119 bits."""
    alphabet = string.ascii_letters + string.digits
    return "".join(secrets.choice(alphabet) for _ in range(secrets.choice(GENERATED_LENGTH)))


def decide_root(
    environ: Mapping[str, str],
    listeners_loopback_only: bool,
    random_password: Callable[[], str] = random_password,
    *,
    with_default_credentials: bool = False,
) -> RootAccount:
    """The root account of a broker that has no users yet. An empty variable counts as not set."""
    username = environ.get(USERNAME_VARIABLE) or None
    password = environ.get(PASSWORD_VARIABLE) or None
    warning = None
    if with_default_credentials:
        if username is not None and password is not None:
            warning = (
                "--with-default-root-credentials is ignored:"
                f" {USERNAME_VARIABLE} and {PASSWORD_VARIABLE} are set"
            )
        else:
            username = username or DEFAULT_USERNAME
            password = password or DEFAULT_PASSWORD
            warning = "the root account may have default credentials: change its password"
    if username is not None and password is not None:
        _check_length(USERNAME_VARIABLE, username, USERNAME_LENGTH)
        _check_length(PASSWORD_VARIABLE, password, PASSWORD_LENGTH)
        return RootAccount(username, password, warning, store_password_file=False)
    if username is not None or password is not None:
        alone, other = USERNAME_VARIABLE, PASSWORD_VARIABLE
        if username is None:
            alone, other = other, alone
        raise ConfigError(f"{alone} is set and {other} is not: needs both or neither")
    if listeners_loopback_only:
        warning = (
            f"the root account is {DEFAULT_USERNAME}/{DEFAULT_PASSWORD}, because only this machine"
            f" can connect; set {USERNAME_VARIABLE} and {PASSWORD_VARIABLE} for anything serious"
        )
        return RootAccount(DEFAULT_USERNAME, DEFAULT_PASSWORD, warning, store_password_file=False)
    return RootAccount(DEFAULT_USERNAME, random_password(), None, store_password_file=True)


def names_default_password(environ: Mapping[str, str]) -> bool:
    """Whether the environment asks for the well-known password by its name."""
    return environ.get(PASSWORD_VARIABLE) == DEFAULT_PASSWORD


def store_root_password(data_directory: Path, password: str) -> Path:
    """Writes the file in one step. When this returns, the password survives a power cut."""
    path = data_directory / ROOT_PASSWORD_FILE
    temporary = path.with_suffix(".tmp")
    temporary.unlink(missing_ok=True)
    # Created with its final rights: there is no moment at which another user could open it.
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, OWNER_ONLY)
    with open(fd, "w") as file:
        file.write(password + "\n")
        file.flush()
        os.fsync(fd)
    os.replace(temporary, path)
    _sync_directory(data_directory)
    return path


def forget_root_password(data_directory: Path) -> None:
    """Removes the file, if there is one: its password is no longer the root's."""
    path = data_directory / ROOT_PASSWORD_FILE
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        # The password in it opens nothing any more; no reason to stop anything.
        LOG.warning("%s holds a root password of the past and cannot be deleted: %s", path, error)


def _sync_directory(directory: Path) -> None:
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _check_length(variable: str, value: str, allowed: range) -> None:
    """The value itself stays out of the message: it may be a password."""
    length = len(value.encode())
    if length not in allowed:
        raise ConfigError(
            f"{variable} has {length} bytes: needs {allowed.start} to {allowed.stop - 1}"
        )
