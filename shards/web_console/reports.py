"""What `borzoi bench` has written, as rows: GET /reports, for users that may read servers.

Reads the directory that `console.reports` names, and nothing else. A report that cannot be read is
left out.
"""

import asyncio
from concurrent.futures import Executor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import msgspec

from borzoi.protocol.codes import Code
from borzoi.quantities import MIB, SECOND
from borzoi.shards.metadata.access import require
from borzoi.shards.web_connections.exchange import Exchange

REPORT: Final = "report.json"
REPORTS_MAX: Final = 500
REPORT_SIZE_MAX: Final = 64 * MIB


class RunSummary(msgspec.Struct):
    """Of one group of actors."""

    total_throughput_megabytes_per_second: float = 0.0
    total_throughput_messages_per_second: float = 0.0
    average_median_latency_ms: float = 0.0
    average_p99_latency_ms: float = 0.0


class RunGroup(msgspec.Struct):
    """Producers, consumers, or both together."""

    summary: RunSummary


class RunParams(msgspec.Struct):
    """What a run was asked for."""

    benchmark_kind: str = ""
    params_identifier: str = ""
    pretty_name: str = ""


class RunReport(msgspec.Struct):
    """The parts of a report that a row shows."""

    timestamp: str
    params: RunParams
    group_metrics: list[RunGroup]


class ReportAnswer(msgspec.Struct, frozen=True):
    """One run."""

    name: str
    at: int
    kind: str
    messages_per_second: float
    megabytes_per_second: float
    p50_ms: float
    p99_ms: float


class Reports:
    """The reports in one directory; none if it is not named. `thread` reads them."""

    def __init__(self, directory: str, thread: Executor) -> None:
        self._directory = Path(directory) if directory else None
        self._thread = thread

    async def show(self, one: Exchange) -> list[ReportAnswer]:
        """The answer to a request. Needs the permission to read servers."""
        require(one.services.metadata.refresh(), one.caller.user, Code.GET_STATS)
        if self._directory is None:
            return []
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, rows_in, self._directory)


def rows_in(directory: Path) -> list[ReportAnswer]:
    """The newest reports below a directory, the newest first. Waits for the disk."""
    decoder = msgspec.json.Decoder(RunReport)
    found = sorted(directory.glob(f"*/{REPORT}"), key=_written_at, reverse=True)[:REPORTS_MAX]
    rows = []
    for path in found:
        row = _row(path, decoder)
        if row is not None:
            rows.append(row)
    return rows


def _written_at(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _row(path: Path, decoder: Any) -> ReportAnswer | None:
    try:
        if path.stat().st_size > REPORT_SIZE_MAX:
            return None
        report: RunReport = decoder.decode(path.read_bytes())
        at = datetime.strptime(report.timestamp, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    except (OSError, ValueError, msgspec.DecodeError):
        return None
    summary = report.group_metrics[-1].summary if report.group_metrics else RunSummary()
    return ReportAnswer(
        path.parent.name,
        int(at.timestamp()) * SECOND,
        report.params.pretty_name or report.params.benchmark_kind,
        summary.total_throughput_messages_per_second,
        summary.total_throughput_megabytes_per_second,
        summary.average_median_latency_ms,
        summary.average_p99_latency_ms,
    )
