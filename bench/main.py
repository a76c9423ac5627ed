"""`borzoi bench`: load, limits, targets, comparisons.

The eight kinds are commands with iggy-bench's names and options; common options may stand before
the kind, as there, or behind it. `tcp` and `output` may stand between the options of a kind, as
iggy-bench wants it, and mean nothing more. What measures and draws is imported when it is needed.
"""

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import click

from borzoi.bench.duel_command import duel
from borzoi.bench.kind_commands import common_options, kind_command
from borzoi.bench.kinds import BY_NAME, KINDS
from borzoi.bench.options import Options
from borzoi.bench.quantity_types import DIRECTORY, DURATION, POSITIVE, SIZE
from borzoi.bench.reported import reported
from borzoi.terminal import VisibleGroup, say

NOT_MET: Final = 2
FILE: Final = click.Path(dir_okay=False, path_type=Path)

# Options that several commands have.
data_dir_option = click.option("--data-dir", type=DIRECTORY, help="Where files lie meanwhile.")


class BenchGroup(VisibleGroup):
    """Finds kinds by alias too, and says in the list what the alias is."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Returns the command of a name or alias; None if there is none."""
        kind = BY_NAME.get(cmd_name)
        return super().get_command(ctx, kind.name if kind else cmd_name)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Returns the commands in the order of their definition."""
        return list(self.commands)


@click.group(cls=BenchGroup, context_settings={"help_option_names": ["-h", "--help"]})
@common_options(behind_kind=False)
@click.pass_context
def bench(ctx: click.Context, /, **common: Any) -> None:
    """Put load on a server and measure it; without an address, on a broker of our own.

    \u0008
    borzoi bench pinned-producer --producers 4 --duration 5s
    borzoi bench -m 200 -P 100 pp -p 8 tcp --server-address 127.0.0.1:8090 output -o results
    borzoi bench limit
    borzoi bench targets
    """
    ctx.obj = common


def run_kind(options: Options) -> None:
    """One run of a kind, from the first connection to the report."""
    with reported():
        from borzoi.bench.benchmark import run_benchmark
        from borzoi.bench.report import build_report
        from borzoi.bench.saving import save_report
        from borzoi.bench.tables import live_bars, new_console, print_report

        console = new_console()
        with live_bars(console, options) as show:
            outcome = run_benchmark(options, say=console.print, show=show)
        report = build_report(outcome)
        print_report(console, report)
        if options.output.directory is not None:
            console.print(f"written to {save_report(report, options.output.directory)}")


for _kind in KINDS:
    bench.add_command(kind_command(_kind, run_kind))
bench.add_command(duel)


@bench.command(name="examples")
def examples() -> None:
    """Print some command lines (alias e)."""
    for line in (
        "borzoi bench pinned-producer",
        "borzoi bench pp -p 4 --duration 10s --warmup-time 1s output -o results",
        "borzoi bench -m 100..2000 -P 10..100 balanced-producer --partitions 12",
        "borzoi bench --rate-limit 50MB pinned-producer-and-consumer --duration 30s",
        "borzoi bench end-to-end-producing-consumer tcp --server-address 10.0.0.5:8090",
        "borzoi bench compare results/before results/after",
    ):
        say(line)


@bench.command()
@click.option("-m", "--message-size", type=SIZE, default="1000", show_default=True)
@click.option("-P", "--messages-per-batch", type=POSITIVE, default=1000, show_default=True)
@click.option("-d", "--duration", type=DURATION, default="1s", show_default=True, help="Per limit.")
@data_dir_option
@click.option("--json", "json_path", type=FILE, help="Write the figures here.")
def limit(
    message_size: int,
    messages_per_batch: int,
    duration: int,
    data_dir: Path | None,
    json_path: Path | None,
) -> None:
    """Measure what this machine can do at all, with the same load generator."""
    with reported():
        from borzoi.bench.cpus import available_cpus, decide
        from borzoi.bench.limits import measure_limits
        from borzoi.bench.saving import save_json
        from borzoi.bench.tables import new_console, print_limits

        cpus = decide(available_cpus(), 1, 1)
        console = new_console()
        limits = measure_limits(
            cpus, message_size, messages_per_batch, duration, data_dir or Path.cwd()
        )
        print_limits(console, limits, message_size, messages_per_batch)
        if json_path is not None:
            save_json(limits.as_json(), json_path)


@bench.command()
@click.option("--runs", type=POSITIVE, default=5, show_default=True, help="The best one counts.")
@click.option(
    "-d", "--duration", type=DURATION, default="2s", show_default=True, help="Per figure."
)
@click.option("--only", multiple=True, help="Only this row; may be repeated.")
@data_dir_option
@click.option("--json", "json_path", type=FILE, default="targets.json")
def targets(
    runs: int, duration: int, only: tuple[str, ...], data_dir: Path | None, json_path: Path
) -> None:
    """Measure the broker against the limits it must come close to."""
    with reported():
        from borzoi.bench.hardware import this_machine
        from borzoi.bench.saving import save_json
        from borzoi.bench.tables import new_console, targets_table
        from borzoi.bench.target_rows import all_met
        from borzoi.bench.targets import ROWS, Effort, measure_targets

        unknown = set(only) - ROWS.keys()
        if unknown:
            raise click.UsageError(f"no row {', '.join(unknown)}; there are {', '.join(ROWS)}")
        console = new_console()
        effort = Effort(runs, duration, data_dir)

        def done(row: Any) -> None:
            best = row.best
            console.print(
                f"{row.workload}: "
                + (f"ratio {best.ratio:.2f}  [dim]{best.note}[/]" if best else row.skipped),
                highlight=False,
            )

        rows = measure_targets(effort, only or tuple(ROWS), done)
        console.print(targets_table(rows))
        save_json(
            {"hardware": asdict(this_machine()), "rows": [row.as_json() for row in rows]}, json_path
        )
        console.print(f"written to {json_path}")
        if not all_met(rows):
            sys.exit(NOT_MET)


@bench.command()
@click.argument("before", type=click.Path(exists=True, path_type=Path))
@click.argument("after", type=click.Path(exists=True, path_type=Path))
def compare(before: Path, after: Path) -> None:
    """Show what changed between two reports (files or directories)."""
    with reported():
        from borzoi.bench.saving import load_report
        from borzoi.bench.tables import new_console, print_comparison

        print_comparison(new_console(), load_report(before), load_report(after))


@bench.command()
@click.option(
    "-d", "--duration", type=DURATION, default="5s", show_default=True, help="Per figure."
)
@data_dir_option
@click.option("--json", "json_path", type=FILE, default="seed.json")
def seed(duration: int, data_dir: Path | None, json_path: Path) -> None:
    """Measure the claims of the architecture and storage pages here."""
    with reported():
        from borzoi.bench import seed as claims
        from borzoi.bench.saving import save_json
        from borzoi.bench.tables import claims_table, new_console

        console = new_console()
        found = [
            claim
            for measure in (
                claims.measure_latencies,
                claims.measure_copies,
                claims.measure_migration,
            )
            for claim in measure(duration, data_dir, console.print)
        ]
        console.print(claims_table(found))
        console.print("The broker has no switch that makes it copy; bare programs stand for that.")
        save_json([claim.as_json() for claim in found], json_path)
        console.print(f"written to {json_path}")


@bench.command()
@click.option("-d", "--duration", type=DURATION, default="2s", show_default=True, help="Per point.")
@click.option("--only", multiple=True, help="Only this sweep; may be repeated.")
@data_dir_option
@click.option("-o", "--output-dir", type=DIRECTORY, default="scale_results", show_default=True)
def scale(duration: int, only: tuple[str, ...], data_dir: Path | None, output_dir: Path) -> None:
    """Sweep sizes and counts, and plot what a message costs."""
    with reported():
        from borzoi.bench.scale import SWEEPS
        from borzoi.bench.scale_report import save_sweeps
        from borzoi.bench.tables import new_console, sweep_table

        unknown = set(only) - SWEEPS.keys()
        if unknown:
            raise click.UsageError(f"no sweep {', '.join(unknown)}; there are {', '.join(SWEEPS)}")
        console = new_console()
        found = {}
        for name in only or tuple(SWEEPS):
            sweep = SWEEPS[name]
            found[name] = list(sweep.points(duration, data_dir))
            console.print(sweep_table(sweep.title, sweep.axis, found[name]))
        console.print(f"written to {save_sweeps(found, output_dir)}")


@bench.command()
@click.option("--rows", type=POSITIVE, default=1_000_000, show_default=True)
@click.option("--partitions", type=POSITIVE, default=4, show_default=True)
@click.option("-m", "--message-size", type=SIZE, default="200", show_default=True)
@click.option("--runs", type=POSITIVE, default=7, show_default=True, help="Of each case.")
@click.option("--warm-ups", type=click.IntRange(min=0), default=3, show_default=True)
@click.option("--samples", type=POSITIVE, default=20, show_default=True, help="Of the latency.")
@data_dir_option
@click.option("-o", "--output-dir", type=DIRECTORY, default="spark_results", show_default=True)
def spark(
    rows: int,
    partitions: int,
    message_size: int,
    runs: int,
    warm_ups: int,
    samples: int,
    data_dir: Path | None,
    output_dir: Path,
) -> None:
    """Measure Spark's source and sink beside what else Spark can do with the rows."""
    with reported():
        import tempfile

        from borzoi.bench.saving import save_json
        from borzoi.bench.spark_report import draw_rates, rates_table, ratios_table
        from borzoi.bench.spark_runs import measure_spark
        from borzoi.bench.tables import new_console

        console = new_console()
        with tempfile.TemporaryDirectory(dir=data_dir) as directory:
            found = measure_spark(
                rows,
                partitions,
                message_size,
                warm_ups,
                runs,
                samples,
                Path(directory),
                console.print,
            )
        console.print(rates_table(found))
        console.print(ratios_table(found))
        console.print(
            f"send to end of batch: p50 {found.percentile(0.5):.0f} ms,"
            f" p95 {found.percentile(0.95):.0f} ms"
        )
        output_dir.mkdir(parents=True, exist_ok=True)
        save_json(found.as_json(), output_dir / "spark.json")
        console.print(f"written to {draw_rates(found, output_dir / 'spark.png')}")


@bench.command()
@click.option("-d", "--duration", type=DURATION, default="5s", show_default=True, help="Per codec.")
@data_dir_option
def compression(duration: int, data_dir: Path | None) -> None:
    """Produce with each codec, and see what it costs and saves."""
    with reported():
        from borzoi.bench.compression import CODECS, measure

        for codec in CODECS:
            found = measure(codec, duration / 1e9, data_dir)
            say(
                f"{codec:5}  produce {found.produce_mb_s:6.0f} MB/s, compressed"
                f" {found.settled_s:.1f} s later; ratio {found.ratio:.2f},"
                f" {found.saved_mb:.0f} MB saved; poll {found.poll_mb_s:.0f} MB/s"
            )


@bench.command(name="soak-memory")
@click.option("--bytes", "total", type=SIZE, default="20GB", show_default=True)
@data_dir_option
@click.option("--json", "json_path", type=FILE, default="soak.json")
def soak_memory(total: int, data_dir: Path | None, json_path: Path) -> None:
    """Send much data through one shard and back, and watch its memory."""
    with reported():
        from borzoi.bench.saving import save_json
        from borzoi.bench.soak import soak
        from borzoi.bench.tables import new_console, piece_line

        console = new_console()
        result = soak(total, data_dir, lambda piece: console.print(piece_line(piece)))
        console.print(
            f"memory grew {result.growth:+.1%} after the first piece (at most +5%),"
            f" descriptors by {result.descriptors_grown}"
        )
        save_json(
            {
                "growth": result.growth,
                "descriptors_grown": result.descriptors_grown,
                "met": result.met,
                "pieces": [asdict(piece) for piece in result.pieces],
            },
            json_path,
        )
        if not result.met:
            sys.exit(NOT_MET)


@bench.command()
@click.option("--minutes", type=POSITIVE, default=10, show_default=True)
@click.option(
    "--share",
    type=click.FloatRange(min=0.0, max=1.0, min_open=True),
    default=0.7,
    show_default=True,
    help="Of what goes through at most.",
)
@click.option("--rate", type=SIZE, help="Bytes per second, instead of a share.")
@click.option("--shards", type=POSITIVE, help="Of our own broker [all CPUs].")
@data_dir_option
@click.option("--json", "json_path", type=FILE, default="tails.json")
def tails(
    minutes: int,
    share: float,
    rate: int | None,
    shards: int | None,
    data_dir: Path | None,
    json_path: Path,
) -> None:
    """Offer a mixed load below saturation, and show its tails by minute."""
    with reported():
        from borzoi.bench.cpus import available_cpus
        from borzoi.bench.saving import save_json
        from borzoi.bench.tables import new_console
        from borzoi.bench.tails import flat_ratio, minute_line
        from borzoi.bench.tails import tails as measured_tails
        from borzoi.bench.target_rows import FOREIGN_SHARE_MAX

        console = new_console()
        count = shards if shards is not None else len(available_cpus())
        found = measured_tails(minutes, share, rate, count, data_dir, console.print)
        for minute in found.minutes:
            console.print(minute_line(minute), highlight=False)
        console.print(f"the longest p99 is {flat_ratio(found.minutes):.1f} times the shortest")
        if found.foreign_cpu_share > FOREIGN_SHARE_MAX:
            busy = f"{found.foreign_cpu_share:.1f}"
            console.print(f"Disturbed: other programs kept {busy} cores busy", style="yellow")
        save_json({**asdict(found), "met": found.met}, json_path)
        if not found.met:
            sys.exit(NOT_MET)
