"""One client's session, and the two requests that carry messages.

Owns what is true of a connection after login: user, generation, remembered places. Always: a
request ends with exactly one reply (reply.py), and no frame is known here. Read session.py, then
send.py, poll.py and group_poll.py.
"""
