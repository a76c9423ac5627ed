"""The web console as the HTTP door serves it: its files, and what only it asks of the broker.

Always: the files are those that were built and committed; a request chooses one of them, and never
a path of the disk. What a page shows beyond its files comes through the endpoints of the API, with
a token. Read assets.py, pages.py, then log_tail.py, facts.py, reports.py, consumers.py.
"""
