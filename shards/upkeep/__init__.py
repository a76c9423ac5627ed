"""What happens to sealed segments: retention, compression, the archive.

Owns the background work over partitions, in turns and in threads; every change of a partition
goes through lifecycle. Read retention.py, compression.py, archiver.py.
"""
