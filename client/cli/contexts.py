"""`borzoi context`: named servers, one of them in use.

They lie in `contexts.json` of the user's directory (places.py). The context `default` is always
there: 127.0.0.1:8090. Passwords are not kept; `borzoi login` keeps a token instead.
"""

from typing import Any, Final, NamedTuple

import click

from borzoi.client.address import parse_address
from borzoi.client.arguments import InvalidArgument
from borzoi.client.cli.places import read_json, write_json

FILE: Final = "contexts.json"
DEFAULT: Final = "default"


class Profile(NamedTuple):
    """A server, and who logs in there."""

    server: str = "127.0.0.1:8090"
    username: str | None = None


class Contexts:
    """The file, read once."""

    def __init__(self) -> None:
        kept = read_json(FILE)
        self.used: str = str(kept.get("used", DEFAULT))
        self.profiles: dict[str, Profile] = {DEFAULT: Profile()}
        for name, one in kept.get("contexts", {}).items():
            self.profiles[name] = Profile(str(one["server"]), one.get("username"))

    def current(self) -> Profile | None:
        """The context in use."""
        return self.profiles.get(self.used)

    def rows(self) -> list[dict[str, Any]]:
        """All of them, as they are shown."""
        return [
            {"name": name, "used": name == self.used, **profile._asdict()}
            for name, profile in sorted(self.profiles.items())
        ]

    def create(self, name: str, profile: Profile) -> None:
        """Adds a context."""
        if name in self.profiles:
            raise click.ClickException(f"context {name} exists already")
        _check(profile.server)
        self.profiles[name] = profile
        self._write()

    def use(self, name: str) -> None:
        """The context of further commands."""
        self._check_name(name)
        self.used = name
        self._write()

    def delete(self, name: str) -> None:
        """Removes a context; the default one is used if it was."""
        self._check_name(name)
        if name == DEFAULT:
            raise click.ClickException("context default stays")
        del self.profiles[name]
        self.used = DEFAULT if self.used == name else self.used
        self._write()

    def _check_name(self, name: str) -> None:
        if name not in self.profiles:
            known = ", ".join(sorted(self.profiles))
            raise click.ClickException(f"context {name} does not exist; there are: {known}")

    def _write(self) -> None:
        contexts = {name: profile._asdict() for name, profile in self.profiles.items()}
        del contexts[DEFAULT]
        write_json(FILE, {"used": self.used, "contexts": contexts})


def _check(server: str) -> None:
    try:
        address = parse_address(server)
    except InvalidArgument as error:
        raise click.ClickException(f"{error}") from error
    if address.login is not None:
        raise click.ClickException(
            "a context keeps no password: give --username, and call `borzoi login`"
        )
