"""Small helpers of the event loop: tasks, rounds at intervals, the clock, turns, pace.

Owns no state of the broker.
"""
