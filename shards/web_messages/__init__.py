"""Messages over HTTP: sent and polled through the ports, waited for, and streamed.

Owns what waits for messages on this shard. Always: a large answer is made piece by piece, as its
client takes it. Read messages.py, message_json.py (JSON), octets.py (bytes and lines), then
streaming.py and arrivals.py.
"""
