"""The HTTP door: requests in, JSON out, over the same commands and handlers as every other door.

Owns the connections of HTTP clients, the table of routes, and the tokens that stand for a login
there. A request has no session: a token names its user, and permissions are asked for each time.

Always: what an HTTP client may do is decided where it is decided for all clients, in handlers and
ports. Nothing of a request is held in memory beyond the bounds of limits.py.

Read routes.py (what there is), door.py (the way of a request), then tokens.py and messages.py.
"""
