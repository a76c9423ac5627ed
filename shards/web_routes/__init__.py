"""What the HTTP door offers: every endpoint as one row, and the document that describes the rows.

Owns the table of routes. Most rows become one command for the handlers of all doors. Read routes.py
(the table), endpoint.py (how a row is found), commands.py (a request as a command), openapi.py and
system.py.
"""
