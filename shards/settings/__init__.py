"""Which settings there are: tables, kinds of values, defaults.

Owns the names and defaults of all settings as immutable values; no file and no environment is read
here. Read schema.py, then kinds.py (how a value is written and checked).
"""
