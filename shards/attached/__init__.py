"""What the metadata holds for Liftbridge: values, which the rooms above store and change.

Owns nothing. Always: a value is replaced, not changed. Read attachment.py.
"""
