"""Streams, topics, users and permissions as values, and the rules that change them.

Pure: no file, no clock, no loop. Always: copies that have applied the same entries are equal. Read
state.py, entries.py (what is logged, and what it changes), decide.py (from a command to an entry),
entry_form.py (the bytes); access.py answers whether a user may.
"""
