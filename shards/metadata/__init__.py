"""Streams, topics, users and permissions as values, and the rules that change them.

Pure: no file, no clock, no loop. decide.py makes an entry of a command, apply.py a state of an
entry; access.py answers whether a user may.
"""
