"""Lanes: logs of objects in a store that replicates, written with put-if-absent.

Read in this order: slots.py (the bytes of an object), keys.py (their names), operations.py (what a
store is asked), lane.py (the machine that decides, pure), checkpoints.py and packs.py (the state of
a lane as bytes), replay.py and meta_replay.py (what a lane comes to), stores.py (stores of today),
driver.py (the machine on a store), lane_log.py (one lane that this process writes), local_copy.py
(a partition's directory as a cache of its lane), identity.py (whose prefix it is), check_store.py
(whether a store keeps its word).
"""
