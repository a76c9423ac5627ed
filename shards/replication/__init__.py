"""Replication: what this shard owns goes into lanes of the cluster's store, and comes from there.

Owns the lanes of the shard's partitions and, on shard 0, the lane `meta`. May touch partitions,
their logs and the metadata log. Imported only where `[replication]` is enabled. Read in this order:
prepare.py (before the workers start), lanes.py (opening, checkpoints), commit.py (what a send waits
for), lane_commit.py (one lane), metadata.py (the lane `meta`).

Always: a local file gets bytes only once they are in the lane, and nothing is published before.
"""
