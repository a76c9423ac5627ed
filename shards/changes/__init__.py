"""How metadata changes: proposals reach shard 0, which decides, logs and publishes.

Owns the one writer (writing.py, shard 0) and every shard's copy (service.py). Always: a change is
durable and visible everywhere before its answer. Read service.py, proposals.py, writing.py,
authors.py, fair_changes.py.
"""
