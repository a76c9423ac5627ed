"""The connections of Liftbridge clients, and whom their calls stand for.

Owns the places of connections, their TLS handshakes, whose bytes are looked at next, and the bounds
of what calls hold. Always: a connection counts for the user of its last call, before the first one
for its address. Read connections.py, then reading.py, calls_in_work.py and callers.py.
"""
