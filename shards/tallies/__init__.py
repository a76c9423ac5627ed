"""What a shard counts for each request: how long it took, what it ended with, what it carried.

Owns counts since the start of the worker and no other state. Read plain_meter.py (the times of
one door, compiled as _meter.pyx), meters.py (all doors of a shard), lag.py (the event loop).
"""
