"""What can go wrong in a run, as one line and exit code 1."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import click

from borzoi.bench.failures import BenchFailed

EXTRA_NEEDED: Final = (
    "needs more packages: install borzoi with its extras `bench` and, for Spark, `spark`"
)
EXTRAS: Final = ("numpy", "rich", "matplotlib", "pyspark", "pyarrow")


@contextmanager
def reported() -> Iterator[None]:
    """Turns what can go wrong in a run into one line and exit code 1."""
    try:
        from borzoi.bench.actors import LoadFailed
        from borzoi.bench.broker import BrokerFailed
        from borzoi.protocol.errors import BrokerError
    except ModuleNotFoundError as error:
        raise click.ClickException(f"{EXTRA_NEEDED} ({error.name})") from error
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name not in EXTRAS:
            raise
        raise click.ClickException(f"{EXTRA_NEEDED} ({error.name})") from error
    except BrokerError as error:
        text = f"the server said {type(error).__name__} (status {error.status})"
        raise click.ClickException(text) from error
    except (LoadFailed, BrokerFailed, BenchFailed, OSError) as error:
        raise click.ClickException(str(error)) from error
