"""What passes between the supervisor and a worker, and a socket between two workers.

Owns the words of that channel (spec.py) and its worker's end (link.py). Always: a descriptor is
closed by the side that sent it.
"""
