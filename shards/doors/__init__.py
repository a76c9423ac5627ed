"""Transports: bytes in, bytes out, no meaning.

Owns sockets and receive memory. A door cuts frames and knows not what they ask for: serving does,
and ends each request with a reply, a value that the door writes in the form of its clients. Read
listener.py, then tcp.py (one frame at a time, replies), intake.py (any other bytes),
socket_flow.py, refused_frames.py and large_answer.py; handshakes.py and websocket.py stand
between a socket and its connection; http.py is the door for metrics.
"""
