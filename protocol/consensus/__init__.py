"""The generation after 0.8: 256 bytes before each payload, sessions, evictions, options.

Pure. framing.py cuts requests and writes headers (operations.py, evictions.py), codecs.py is the
table of payloads, options.py the blocks of named values in some of them.
"""
