"""The beginning and the end of a partition's data: recovery, repair, deletion, the last sync.

Removes segments by retention and cuts torn tails. Purges and deletes are elsewhere (partitions,
changes), and so are the plain twin of a compressed segment (upkeep) and leftovers of a failed write
(storage/log.py). Read recovery.py, closing.py, deleting.py (blockers.py: the consumers that still
need a segment), repairing.py.
"""
