"""The door of Liftbridge: the ports that liftbridge/ needs, made of the rooms below; its listener.

Owns the cursors that wait to be logged, and on shard 0 when each member of a group was heard of.
Imported only where liftbridge.enabled is set. Always: liftbridge/ knows nothing of this room. Read
store.py, then cursors.py and members.py, then door.py.
"""
