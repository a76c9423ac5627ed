"""`borzoi bench` and `borzoi test` where `./borzoi` of a checkout does not catch them.

From a wheel, `bench` is there with the extra of that name; the tests are in a checkout only.
"""

from importlib import import_module
from typing import Any, Final

import click

PASSED_ON: Final = {
    "ignore_unknown_options": True,
    "allow_extra_args": True,
    "help_option_names": [],
}


@click.command(context_settings=PASSED_ON)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def bench(arguments: tuple[str, ...]) -> None:
    """Load generators and reports."""
    try:
        command: Any = import_module("borzoi.bench.main").bench
    except ModuleNotFoundError as error:
        raise click.ClickException(
            f"the extra `bench` is not installed ({error.name} is missing): in a checkout call"
            " ./borzoi bench, elsewhere install borzoi[bench]"
        ) from error
    command.main(args=list(arguments), prog_name="borzoi bench")


@click.command(context_settings=PASSED_ON)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def test(arguments: tuple[str, ...]) -> None:
    """Run the tests of a checkout."""
    del arguments
    raise click.ClickException("the tests are in a checkout: call ./borzoi test there")
