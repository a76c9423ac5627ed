"""Lanes: logs of objects in a store that replicates, written with put-if-absent.

Read in this order: slots.py (the bytes of an object), keys.py (their names), operations.py (what a
store is asked), lane.py (the machine that decides, pure), checkpoints.py (the state of a lane as
bytes), stores.py (stores of today), driver.py (the machine on a store), check_store.py (whether a
store keeps its word).

Always: nothing here is imported by a broker. Replication is not built yet.
"""
