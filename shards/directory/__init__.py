"""The data directory as a whole: its lock, its key, its log files.

Used once, by the supervisor at a start, before any worker lives; log files are written by all.
Read opening.py first.
"""
