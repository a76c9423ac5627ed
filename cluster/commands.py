"""`borzoi cluster check-store URL`: whether replication would be safe on a store.

Exit codes: 0 it fits, 1 it does not keep its word, 3 it cannot be judged (not reached, no right).
"""

import asyncio
import sys
from typing import Final

import click
import msgspec

from borzoi.cluster.check_store import ROUNDS, SAMPLES, WRITERS, Report, Verdict, check
from borzoi.cluster.opening_stores import open_store
from borzoi.cluster.stores import StoreRefused, StoreUnreachable
from borzoi.terminal import say, say_json

UNFIT: Final = 1
NOT_JUDGED: Final = 3
WRITERS_MAX: Final = 64
ROUNDS_MAX: Final = 100_000
SAMPLES_MAX: Final = 10_000
SIGNS: Final = {Verdict.GOOD: "ok", Verdict.WARNING: "warning", Verdict.BAD: "FAILED"}


@click.command("check-store")
@click.argument("url")
@click.option("--endpoint", default="", help="Of a bucket that is not at AWS: http://host:port.")
@click.option("--region", default="", help="Of the bucket.")
@click.option("--rounds", type=click.IntRange(1, ROUNDS_MAX), default=ROUNDS, show_default=True)
@click.option("--writers", type=click.IntRange(2, WRITERS_MAX), default=WRITERS, show_default=True)
@click.option("--samples", type=click.IntRange(1, SAMPLES_MAX), default=SAMPLES, show_default=True)
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def check_store(
    url: str, endpoint: str, region: str, rounds: int, writers: int, samples: int, as_json: bool
) -> None:
    """Try whether a store keeps what replication needs: a directory, or s3://BUCKET/PREFIX.

    Credentials come from the AWS_* variables. Exit code 1 if the store does not keep its word, 3 if
    it cannot be judged.
    """
    # `borzoi --json cluster check-store` says the same.
    as_json = as_json or bool(click.get_current_context().find_root().params.get("as_json"))
    try:
        store = open_store(url, endpoint, region)
    except StoreRefused as error:
        raise click.UsageError(str(error)) from error
    try:
        report = asyncio.run(check(store, rounds, writers, samples))
    except (StoreUnreachable, StoreRefused) as error:
        if as_json:
            say_json(msgspec.json.encode({"store": url, "fits": None, "error": str(error)}))
        say(f"{error}; nothing is known about this store", err=True)
        sys.exit(NOT_JUDGED)
    if as_json:
        say_json(msgspec.json.encode(report))
    else:
        _show(report)
    sys.exit(0 if report.fits else UNFIT)


def _show(report: Report) -> None:
    for one in report.checks:
        say(f"{SIGNS[one.verdict]:8} {one.name:14} {one.says}")
    say(f"{'request':14} {'bytes':>9} {'p50 ms':>9} {'p99 ms':>9}")
    for row in report.latencies:
        say(f"{row.request:14} {row.size_bytes:>9} {row.p50_ms:>9.2f} {row.p99_ms:>9.2f}")
    for key in report.left:
        say(f"left behind: {key}", err=True)
    if report.fits:
        say(f"{report.store} fits: a lane is safe on it as far as a check can tell")
    else:
        say(f"{report.store} does not fit: acknowledged messages would be lost on it", err=True)
