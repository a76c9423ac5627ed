"""Tokens that `borzoi login` and `borzoi pat create --store-token` keep, by server and name.

In the keyring where the package `keyring` is installed and has one, else in `tokens.json`, which
only its owner can read. A token that has expired is forgotten when it is looked for.
"""

import importlib
import json
import time
from typing import Any, Final

from borzoi.client.address import parse_address
from borzoi.client.cli.places import directory, read_json, write_json

FILE: Final = "tokens.json"
SERVICE: Final = "borzoi"
SESSION: Final = ""
"""The name under which the token of `borzoi login` is kept."""


def key_of(server: str, name: str) -> str:
    """What a token is kept under: the place of its server, however that was spelt, and its name."""
    address = parse_address(server)
    return f"{address.host}:{address.port}/{name}"


class Tokens:
    """All of them, of all servers."""

    def __init__(self) -> None:
        self._keyring = _find_keyring()

    @property
    def place(self) -> str:
        """Where they lie, for sentences."""
        return "the keyring" if self._keyring is not None else str(directory() / FILE)

    def find(self, server: str, name: str = SESSION) -> str | None:
        """The token, None if there is none or it has expired."""
        key = key_of(server, name)
        kept = self._read(key)
        if kept is None:
            return None
        until = kept.get("until")
        if isinstance(until, (int, float)) and until <= time.time():
            self.forget(server, name)
            return None
        return str(kept["token"])

    def keep(self, server: str, token: str, name: str, until: float | None, made: str) -> str:
        """Keeps a token, until a time in seconds since 1970; returns where.

        `made` is its name on the server.
        """
        key, value = key_of(server, name), {"token": token, "until": until, "made": made}
        if self._keyring is not None:
            self._keyring.set_password(SERVICE, key, json.dumps(value))
        else:
            write_json(FILE, read_json(FILE) | {key: value})
        return self.place

    def forget(self, server: str, name: str = SESSION) -> str | None:
        """Removes a token and returns its name on the server; None if there was none."""
        key = key_of(server, name)
        kept = self._read(key)
        if kept is None:
            return None
        if self._keyring is not None:
            self._keyring.delete_password(SERVICE, key)
        else:
            write_json(FILE, {one: value for one, value in read_json(FILE).items() if one != key})
        return str(kept.get("made"))

    def _read(self, key: str) -> dict[str, Any] | None:
        if self._keyring is None:
            kept = read_json(FILE).get(key)
        else:
            text = self._keyring.get_password(SERVICE, key)
            kept = None if text is None else json.loads(text)
        return kept if isinstance(kept, dict) and "token" in kept else None


def _find_keyring() -> Any:
    """The module, if it is installed and has a keyring to write to; its back ends say so."""
    try:
        keyring = importlib.import_module("keyring")
    except ImportError:
        return None
    return keyring if getattr(keyring.get_keyring(), "priority", 0) > 0 else None
