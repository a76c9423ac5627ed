"""The ways to a partition wherever it lives: append, read, follow, commit an offset.

Owns what waits for messages, nothing else: asks the rooms below on this shard, or the owner's shard
over a ring. No way needs a session or a buffer of the arena. Read append.py, requests.py and
owners.py, then reads.py, arrivals.py (follow) and partitioning.py.
"""
