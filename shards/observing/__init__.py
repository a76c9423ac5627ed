"""What the broker tells about itself to clients: statistics, clients, snapshots.

Owns no state but caches of it. Read statistics.py, cluster.py, then snapshots.py: snapshot_parts.py
is what a snapshot holds, programs.py runs those that a part of it needs.
"""
