"""Transports: bytes in, bytes out, no meaning.

Owns sockets, receive memory, deadlines and the places that connections take. A door knows frames
and not what they ask for: serving does. Read listener.py, then tcp.py; http.py is the door for
metrics.
"""
