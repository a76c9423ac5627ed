"""One shard put together.

Owns every object of a worker: it alone knows all rooms below and wires them. When what of it begins
and ends is decided in the room `run`. Read shard.py (what it is made of), storage.py, memory.py,
segment_work.py, and ring_table.py (what other shards may ask).
"""
