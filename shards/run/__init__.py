"""The life of one worker: boot, serve, stop.

Owns the order in which the parts of a shard begin and end; the parts are made in the room `wiring`.
Read worker_process.py (the process), worker.py (its life) and first_boot.py (how shard 0
opens the metadata).
"""
