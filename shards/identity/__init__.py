"""The identity of clients: passwords, tokens, logins, the list of clients.

Owns the sessions of this shard as a list, failures of logins, and the threads that hash. A
password is never kept or logged. Read logins.py, then clients.py.
"""
