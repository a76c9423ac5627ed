"""Quantities as types of command-line options."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import click

from borzoi.bench.options import parse_address
from borzoi.bench.quantities import parse_duration_ns, parse_range, parse_size


class Quantity(click.ParamType[Any]):
    """A value parsed by one of the functions of quantities.py."""

    def __init__(self, name: str, parse: Callable[[str], Any]) -> None:
        self.name = name
        self._parse = parse

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Returns the parsed text of an option; a text that does not parse is a usage error."""
        if not isinstance(value, str):
            return value
        try:
            return self._parse(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


SIZE: Final = Quantity("size", parse_size)
RANGE: Final = Quantity("n|min..max", parse_range)
DURATION: Final = Quantity("duration", parse_duration_ns)
ADDRESS: Final = Quantity("host:port", parse_address)
POSITIVE: Final = click.IntRange(min=1)
DIRECTORY: Final = click.Path(file_okay=False, path_type=Path)
