"""Small helpers of the event loop: tasks, rounds at intervals, the clock, turns, pace.

Owns no state of the broker. Read tasks.py, periodic.py, clock.py, turns.py, pace.py, rarely.py.
"""
