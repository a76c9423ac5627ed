"""Brokers that replicate into a store of a test."""

from pathlib import Path

from tests.shard_wires import ONE_SHARD, TWO_SHARDS

SMALL = {
    # Packs, merged pieces and segments that roll, all within a second.
    "IGGY_REPLICATION_CHECKPOINT_INTERVAL": "100 ms",
    "IGGY_SYSTEM_SEGMENT_SIZE": "64 KiB",
}


def replicated(store: Path | str, node: str = "a", *, shards: int = 2) -> dict[str, str]:
    """The settings of a node on this store."""
    return {
        **(TWO_SHARDS if shards == 2 else ONE_SHARD),
        "IGGY_SYSTEM_PARTITION_DURABILITY": "replicated",
        "IGGY_REPLICATION_ENABLED": "true",
        "IGGY_REPLICATION_STORE": str(store),
        "IGGY_REPLICATION_NODE": node,
    }
