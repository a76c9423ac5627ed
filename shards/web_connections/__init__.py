"""The connections of HTTP clients, and one request on one of them.

Owns the open connections with their places and deadlines; the library that parses and writes is
used here. Read connections.py, then exchange.py.
"""
