"""One shard put together, and its life.

Owns every object of a worker: it alone knows all rooms and wires them. Read worker_process.py
(the process), worker.py (the order of its life), shard.py (what it is made of), storage.py and
memory.py.
"""
