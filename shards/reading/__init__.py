"""What any shard reads, without the owner: mapped files below the published end.

Owns mappings and the threads that warm cold bytes. Never writes. Read readers.py, warm_reads.py.
"""
