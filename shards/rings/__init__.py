"""Shard to shard: 64-byte requests over shared memory.

Owns the rings' ends of this shard and what waits for an answer. Read requests.py, then peers.py.
"""
