"""Messages over HTTP: sent and polled through the ports, waited for, and streamed.

Owns nothing: what waits for messages is in ports/arrivals.py. Always: a large answer is made piece
by piece, as its client takes it. Read messages.py, message_json.py and stored_bytes.py (JSON),
octets.py (bytes and lines), then streaming.py.
"""
