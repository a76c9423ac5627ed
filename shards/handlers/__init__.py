"""One function for each other command; table.py lists them.

Owns nothing: a handler checks, asks the rooms below through Services, and returns the answer.
"""
