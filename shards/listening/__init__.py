"""Sockets that listen, and what came through them.

Owns the listening sockets of a shard (sockets.py), TLS handshakes (handshakes.py) and the list of
open connections, whatever door they came through (listener.py). http.py is the door for metrics.
Read sockets.py, then listener.py.
"""
