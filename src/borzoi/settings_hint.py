"""`borzoi serve`, where a setting is given as an option: says where settings are."""

from typing import Final

import click

HINT: Final = (
    " Settings are variables, such as IGGY_TCP_ADDRESS=127.0.0.1:8190, or stand in the file of"
    " --config; `borzoi config show` lists them."
)


class ServeCommand(click.Command):
    """A command whose settings are no options."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Reads the options."""
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            raise click.UsageError(f"{error.message}{HINT}", ctx) from error
