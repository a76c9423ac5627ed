"""Datagrams before they are a connection: the UDP socket, whose each one is, who has proved what.

Owns the socket of the QUIC door (udp.py) and its tokens (tokens.py). Knows no connection and no
key of one: packets.py reads what lies in clear. Read packets.py, tokens.py, udp.py.
"""
