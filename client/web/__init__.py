"""The client over HTTP: commands become requests, JSON becomes the same values as on other doors.

Read requests.py (a row per command), answers.py (values), reader.py (bytes), connection.py.
"""
