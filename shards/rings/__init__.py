"""Shard to shard: 64-byte requests over shared memory.

Owns the rings' ends of this shard and what waits for an answer. Read requests.py
(what is asked), peers.py (how), then gather.py, lending.py and asking.py. Kinds of requests are
defined in the rooms that carry them out.
"""
