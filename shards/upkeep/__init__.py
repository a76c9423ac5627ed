"""What happens to sealed segments: retention, compression, the archive.

Owns the background work over partitions, in turns and in threads. Retention deletes through
lifecycle; compression.py itself replaces a plain segment by its compressed twin. Read retention.py,
compression.py, archiver.py.
"""
