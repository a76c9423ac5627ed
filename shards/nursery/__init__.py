"""How a worker is born: a prepared process forks it.

Owns the fork server and the descriptors that a new worker inherits. Read process.py (what the two
sides say), nursery.py (inside the fork server), link.py (the supervisor's side), spawning.py.
"""
