"""WebSocket: binary messages between a transport and its connection.

Owns the upgrade, the frames and the parting of one WebSocket; to a connection it is a transport
like any other (doors/tcp.py). The frames themselves are cut and made in protocol/websocket.py.
Read rules.py, then websocket.py.
"""
