"""The commands as methods, one module per kind of thing; client.py puts them together."""
