"""How long names and passwords may be. Bytes of UTF-8, as on the wire."""

from typing import Final

from borzoi.protocol.errors import InvalidPassword, InvalidUsername

USERNAME_LENGTH: Final = range(3, 51)
PASSWORD_LENGTH: Final = range(3, 101)


def check_username(username: str) -> None:
    """Raise InvalidUsername unless a user may be called that."""
    if len(username.encode()) not in USERNAME_LENGTH:
        raise InvalidUsername(f"a username has {_range(USERNAME_LENGTH)} bytes")


def check_password(password: str) -> None:
    """Raise InvalidPassword unless that is neither too short nor too long."""
    if len(password.encode()) not in PASSWORD_LENGTH:
        raise InvalidPassword(f"a password has {_range(PASSWORD_LENGTH)} bytes")


def _range(allowed: range) -> str:
    return f"{allowed.start} to {allowed.stop - 1}"
