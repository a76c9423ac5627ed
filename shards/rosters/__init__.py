"""Who holds which partition of a group, as values.

Owns no process, file or clock. Always: while a group has members, each partition of its topic has
one holder. Read spread.py (the even split), roster.py (shard 0's side of a group), assignment.py
(what shards tell each other of it), share.py (a session's side).
"""
