"""What a bench prints: tables and live bars on the terminal, through rich.

Owns nothing that is measured. Numbers are rounded here and nowhere else.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from borzoi.bench.compare import Difference, compare, warnings
from borzoi.bench.limits import Limits
from borzoi.bench.load import Progress as LoadProgress
from borzoi.bench.options import Options
from borzoi.bench.quantities import MB, NS_PER_S, format_size
from borzoi.bench.rates import Rate
from borzoi.bench.run_figures import FIGURES
from borzoi.bench.scale import ScalePoint
from borzoi.bench.seed import Claim
from borzoi.bench.soak import Piece
from borzoi.bench.target_rows import Row, disturbance
from borzoi.visible import visible

PIPE_WIDTH: Final = 160
MET: Final = {True: "[green]yes[/]", False: "[red]no[/]", None: "[yellow]skipped[/]"}
UNDECIDED: Final = "[yellow]busy[/]"


class VisibleConsole(Console):
    """Text that it is given cannot act on the terminal; the line breaks of ours stay."""

    def render_str(self, text: str, **how: Any) -> Text:
        """Returns the text with its control characters escaped."""
        return super().render_str("\n".join(map(visible, text.split("\n"))), **how)


def new_console() -> Console:
    """Returns a console that is wide enough for our tables, also if it is no terminal."""
    console = VisibleConsole()
    return console if console.is_terminal else VisibleConsole(width=PIPE_WIDTH)


@contextmanager
def live_bars(console: Console, options: Options) -> Iterator[Callable[[LoadProgress], None]]:
    """A bar for the warm-up and one for the measured part, while the block runs."""
    with Progress(
        SpinnerColumn(),
        TextColumn("{task.description:<10}"),
        BarColumn(bar_width=None),
        TextColumn("{task.fields[figures]}"),
        TimeElapsedColumn(),
        console=console,
        transient=True,
    ) as progress:
        task = progress.add_task("warming up", total=None, figures="")

        def show(now: LoadProgress) -> None:
            if not now.measuring:
                return
            seconds = max(now.elapsed_s, 1e-3)
            done, total = _share(options, now)
            progress.update(
                task,
                description="measuring",
                completed=done,
                total=total,
                figures=(
                    f"{now.requests:>10,} requests {now.user_bytes / MB / seconds:>8,.0f} MB/s"
                    f" {now.messages / seconds:>12,.0f} msg/s"
                ),
            )

        yield show


def print_report(console: Console, report: dict[str, Any]) -> None:
    """The table of a run, with the ratios to the bare limits below it."""
    params, extras = report["params"], report["borzoi"]
    table = Table(
        title=(
            f"{params['pretty_name']}: {params['messages_per_batch']} x"
            f" {params['message_size']} B per batch"
        ),
        title_justify="left",
    )
    # Figures below each other, groups side by side: 80 columns are enough for all of it.
    table.add_column("", no_wrap=True)
    summaries = [group["summary"] for group in report["group_metrics"]]
    for summary in summaries:
        table.add_column(summary["kind"].replace("_", " "), justify="right")
    for name, key, digits in FIGURES:
        table.add_row(name, *(f"{summary[key]:,.{digits}f}" for summary in summaries))
    console.print(table)
    console.print("Latencies are in milliseconds; MB/s counts user data.", style="dim")
    generators = ", ".join(f"{one['cpu_share']:.0%}" for one in extras["generators"])
    rate = extras["rate"]
    console.print(
        f"CPU of one core: generators {generators}; shards together"
        f" {rate['server_cpu_share']:.0%} ({rate['server_us_per_request']:.1f} us per request)"
    )
    console.print(f"Bottleneck: {extras['bottleneck']}")
    if disturbed := disturbance(extras):
        console.print(disturbed, style="yellow")
    if extras["cpus"]["shared"]:
        console.print(
            "Server and generators share their CPUs: figures are lower than they could be"
        )
    if extras["write_back_throttled_share"]:
        console.print(
            f"The disk's write-back held writers up"
            f" {extras['write_back_throttled_share']:.0%} of the time"
        )
    if extras["polled_range"]:
        console.print(f"Polled range: {extras['polled_range']}")
    print_ratios(console, extras["ratios"])


def print_ratios(console: Console, ratios: dict[str, float | None]) -> None:
    """Prints the ratios to the bare limits, those that are known."""
    said = [
        f"{name.replace('_', ' ')} {value:.2f}"
        for name, value in ratios.items()
        if value is not None
    ]
    if said:
        console.print("Ratio to the bare limits of this machine: " + ", ".join(said))


def print_comparison(
    console: Console, before: dict[str, Any], after: dict[str, Any]
) -> list[Difference]:
    """Prints two reports side by side; returns the differences."""
    for warning in warnings(before, after):
        console.print(f"[yellow]not the same:[/] {warning}")
    table = Table(title="Before and after", title_justify="left")
    for name in ("actors", "figure", "before", "after", "change"):
        table.add_column(name, justify="left" if name in ("actors", "figure") else "right")
    differences = compare(before, after)
    for one in differences:
        colour = {True: "green", False: "red", None: "dim"}[one.better]
        table.add_row(
            one.group.replace("_", " "),
            one.figure,
            f"{one.before:,.3f}",
            f"{one.after:,.3f}",
            f"[{colour}]{one.change:+.1%}[/]",
        )
    console.print(table)
    return differences


def print_limits(console: Console, limits: Limits, message_size: int, batch: int) -> None:
    """Prints the bare limits of this machine."""
    table = Table(
        title=f"Bare limits, frames of {batch:,} x {message_size:,} B", title_justify="left"
    )
    for name in ("limit", "program", "reached", "us CPU/request", "server CPU", "generator CPU"):
        table.add_column(name, justify="left" if name in ("limit", "program") else "right")
    _limit_row(table, "receive and append to a file", limits.append, in_bytes=True)
    _limit_row(table, "mapped slices to a socket", limits.slices, in_bytes=True)
    _limit_row(table, "echo of small frames", limits.echo, in_bytes=False)
    table.add_row("fdatasync", "pwrite 4 KiB", f"{limits.fdatasyncs_per_s:,.0f} /s", "", "", "")
    console.print(table)


def targets_table(rows: Sequence[Row]) -> Table:
    """Returns the table of targets."""
    table = Table(
        title="Targets",
        title_justify="left",
        padding=(0, 0),
        caption=(
            "ratio: best run; median: of all runs; CPU: median ratio of CPU time per request;"
            " busy: undecided, because other programs used these CPUs in every run"
        ),
        caption_justify="left",
    )
    table.add_column("workload, unit", overflow="fold")
    for name in ("reference", "broker", "ratio", "median", "CPU", "target", "met"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        best = row.best
        sign = "<=" if row.at_most else ">="
        figures = (
            (f"{best.reference:,.0f}", f"{best.broker:,.0f}", f"{best.ratio:.2f}")
            if best
            else ("", "", "")
        )
        median = f"{row.median_ratio:.2f}" if best else ""
        cpu = "" if row.median_cpu_ratio is None else f"{row.median_cpu_ratio:.2f}"
        met = UNDECIDED if best and best.disturbed else MET[row.met]
        what = f"{row.workload}, {row.unit}"
        table.add_row(what, *figures, median, cpu, f"{sign}{row.target:.2f}", met)
    return table


def claims_table(claims: Sequence[Claim]) -> Table:
    """Returns the table of the pages' claims."""
    table = Table(title="The pages' claims, measured here", title_justify="left")
    for name in ("what", "unit", "before", "after", "change", "the page says"):
        table.add_column(name, justify="left" if name in ("what", "unit") else "right")
    for claim in claims:
        table.add_row(
            claim.what,
            claim.unit,
            f"{claim.before:,.3f}",
            f"{claim.after:,.3f}",
            f"{claim.change:+.0%}",
            claim.page,
        )
    return table


def sweep_table(title: str, axis: str, points: Sequence[ScalePoint]) -> Table:
    """Returns the table of one parameter's sweep."""
    table = Table(title=title, title_justify="left")
    for name in (axis, "us CPU/message", "messages/s", "MB/s"):
        table.add_column(name, justify="right")
    for point in points:
        table.add_row(
            f"{point.value:,}",
            f"{point.us_per_message:.3f}",
            f"{point.messages_per_s:,.0f}",
            f"{point.megabytes_per_s:,.1f}",
        )
    return table


def piece_line(piece: Piece) -> str:
    """Returns the figures of one piece of a soak as a line."""
    throttled = f", write-back held up {piece.throttled_share:.0%}" if piece.throttled_share else ""
    return (
        f"{format_size(piece.produced):>10}: memory {format_size(piece.memory_peak)},"
        f" page cache seen through maps {format_size(piece.file_peak)},"
        f" {piece.descriptors_peak} descriptors,"
        f" {piece.produced_mb_s:,.0f} MB/s in, {piece.polled_mb_s:,.0f} MB/s out{throttled}"
    )


def _limit_row(table: Table, name: str, rate: Rate, *, in_bytes: bool) -> None:
    reached = (
        f"{rate.bytes_per_s / MB:,.0f} MB/s" if in_bytes else f"{rate.requests_per_s:,.0f} req/s"
    )
    table.add_row(
        name,
        rate.variant,
        reached,
        f"{rate.server_us_per_request:.1f}",
        f"{rate.server_cpu_share:.0%}",
        f"{rate.generator_cpu_share:.0%}",
    )


def _share(options: Options, now: LoadProgress) -> tuple[float, float]:
    """How much is done, and of how much."""
    if options.duration_ns is not None:
        total = options.duration_ns / NS_PER_S
        return min(now.elapsed_s, total), total
    both = 2 if options.kind.produces and options.kind.consumes and not options.kind.pairs else 1
    if options.total_data is not None:
        return float(now.user_bytes), float(options.total_data * both)
    assert options.message_batches is not None
    return float(now.requests), float(options.message_batches * options.actor_count)
