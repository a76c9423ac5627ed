"""One function for each command but send and poll; table.py lists them.

Owns nothing: a handler checks, asks the rooms below through Services, and returns the answer.
Read services.py and caller.py (what it gets), then any other.
"""
