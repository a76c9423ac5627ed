"""The beginning and the end of a partition's data: recovery, repair, deletion, the last sync.

Owns what may remove or cut bytes; nothing else does. The consumers that still need a segment are in
blockers.py.
"""
