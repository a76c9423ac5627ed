"""One connection: bytes in, bytes out, no meaning.

Owns receive memory. A connection cuts frames and knows not what they ask for: serving does, and
ends each request with a reply, a value that the door writes in the form of its clients. Read tcp.py
(one frame at a time, replies), intake.py (any other bytes), socket_flow.py, refused_frames.py,
guarded.py (what a request passes before it is carried out) and large_answer.py. Sockets are
accepted in listening/; websocket/ may stand between a socket and its connection.
"""
