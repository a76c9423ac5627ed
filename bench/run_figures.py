"""The figures by which a run is described, the same on the terminal and in the page. Pure."""

from typing import Final

from borzoi.bench.measures import PERCENTILE_NAMES

FIGURES: Final = (
    ("MB/s", "total_throughput_megabytes_per_second", 1),
    ("messages/s", "total_throughput_messages_per_second", 0),
    *((name, f"average_{name}_latency_ms", 3) for name in PERCENTILE_NAMES),
    ("mean", "average_latency_ms", 3),
    ("min", "min_latency_ms", 3),
    ("max", "max_latency_ms", 3),
    ("std dev", "std_dev_latency_ms", 3),
)
"""Name, key in the summary of a group, digits."""
