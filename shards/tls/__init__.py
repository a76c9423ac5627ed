"""Certificates and the TLS contexts made of them, for every door that is asked to be encrypted.

Owns how PEM files are read and judged, the certificate that the broker makes for itself, and which
versions of TLS are spoken. The supervisor reads files (certificate.py) and hands what it found to
the workers, so that all shards show the same certificate; a worker makes a context of it
(context.py). Always: what cannot be used is found before a door opens, or before a renewal begins.
"""
