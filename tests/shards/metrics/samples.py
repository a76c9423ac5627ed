"""Figures for tests: a shard that has nothing to tell, but for what a test says."""

from typing import Any

from borzoi.shards.metrics.shard_figures import LAG, Cut, Lag, Lags, Resident, ShardFigures


def shard_figures(**known: Any) -> ShardFigures:
    nothing: dict[str, Any] = {
        "connections": 0,
        "clients": 0,
        "cpu_seconds": 0.0,
        "resident": Resident(0, 0, 0),
        "mapped_bytes": 0,
        "http_requests": 0,
        "http_refused": 0,
        "deleted_segments": 0,
        "deleted_bytes": 0,
        "deleted_unread_segments": 0,
        "blocked": Cut([]),
        "blocked_since": Cut([]),
        "archive": None,
        "codecs": {},
        "compressed": Cut([]),
        "read_only": Cut([]),
        "refused_partitions": 0,
        "faults": [],
        "metadata_is_read_only": False,
        "duplicates": 0,
        "lags": Lags(),
        "shared": {},
    }
    return ShardFigures(**{**nothing, **known})


def lags_of(*rows: Lag, left_out: int = 0) -> Lags:
    return Lags(b"".join(LAG.pack(*row) for row in rows), left_out)
