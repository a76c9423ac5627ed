"""Streams, topics, users and permissions as values, and the entries that change them.

Pure: no file, no clock, no loop. Always: copies that have applied the same entries are equal. Read
state.py, entries.py (what is logged, and what it changes), entry_form.py (the bytes); access.py
answers whether a user may.
"""
