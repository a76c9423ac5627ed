"""The HTTP door of a shard: from a connection to an answer.

Owns the listening socket, the way of each request, and the bodies in memory. Always: what an HTTP
client may do is decided where it is decided for all clients, in handlers and ports. Nothing of a
request is held in memory beyond the bounds of web_forms/limits.py.

Read door.py (the way of a request), body.py, cors.py; then downwards: web_routes/ (what
there is), web_messages/, web_connections/, web_tokens/, web_forms/.
"""
