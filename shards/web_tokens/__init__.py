"""Logins over HTTP: a token names its user, and permissions are asked for at each request.

Owns the key that signs tokens, and the list of those that are withdrawn. Always: a token that was
withdrawn is refused on every shard once that is answered, and after a restart. Read tokens.py,
keys.py, revocations.py, caller.py (a user for the time of one request), logins.py.
"""
