"""The QUIC door: a UDP socket on shard 0, a connection per client, a stream per request.

Owns the connections, their ids, and what is received of streams that are no whole request yet. A
QUIC connection is one session: to its connection (doors/streamed.py) it is a transport, and
requests reach it whole, one at a time. Packets, keys and loss are the business of `qh3`, which is
imported here alone, and only where the door is open. Read door.py, link.py, streams.py, answers.py;
then library.py and rules.py. Below lies datagrams/.
"""
