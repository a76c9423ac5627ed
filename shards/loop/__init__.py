"""Small helpers of the event loop: tasks, the clock, fair turns, pace.

Owns no state of the broker.
"""
