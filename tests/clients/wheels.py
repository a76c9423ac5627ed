"""The published clients that the tests run: one line each in packages.txt.

Behind a package stands what its interface can do, so that a scenario knows at once which packages
it is for; test_connections.py compares that with the package itself.

    ambiguous      when it dials again its bytes are those of the Go SDK until it sends something
    bytes          payloads of any bytes; without it only text
    confirmations  a send tells partition and offset, and is never repeated by the package itself
    groups         consumer groups
    headers        user headers, and message ids of the application's choice
    partitioning   sends by key and balanced; without it only to a partition
    strings        connection strings: logs in by itself, also again; tokens
"""

import sys
from pathlib import Path
from typing import Final, NamedTuple

import pytest

PACKAGES: Final = Path(__file__).with_name("packages.txt")
INSTALLED: Final = Path(sys.prefix) / "clients"
ABILITIES: Final = frozenset(
    {"ambiguous", "bytes", "confirmations", "groups", "headers", "partitioning", "strings"}
)


class Wheel(NamedTuple):
    """One version of one package."""

    name: str
    version: str
    abilities: frozenset[str]

    def __str__(self) -> str:
        return f"{self.name}-{self.version}"

    @property
    def directory(self) -> Path:
        return INSTALLED / str(self)

    @property
    def module(self) -> str:
        return self.name.replace("-", "_")

    def can(self, ability: str) -> bool:
        return ability in self.abilities


def read_packages(text: str) -> list[Wheel]:
    """The lines that are no comments; raises ValueError for an ability that has no meaning."""
    found = []
    for line in text.splitlines():
        if line.startswith("#") or not line:
            continue
        package, *abilities = line.split()
        unknown = set(abilities) - ABILITIES
        if unknown:
            raise ValueError(f"{package} can {sorted(unknown)}, known are {sorted(ABILITIES)}")
        name, _, version = package.partition("==")
        found.append(Wheel(name, version, frozenset(abilities)))
    return found


WHEELS: Final = read_packages(PACKAGES.read_text())


def wheels_that_can(ability: str) -> list[Wheel]:
    return [wheel for wheel in WHEELS if wheel.can(ability)]


def need(*wheels: Wheel) -> None:
    """Skips the test where a package is not installed."""
    for wheel in wheels:
        if not wheel.directory.is_dir():
            pytest.skip(
                f"{wheel} is not in {INSTALLED.name}/ of the environment: ./borzoi test installs"
                " it where PyPI has a wheel for this Python"
            )
