"""What a connection may take: places, frame sizes, time.

Owns the places of connections and the bounds of one connection; a door asks before it takes bytes
or memory. Read frames.py, deadlines.py, places.py.
"""
