"""From a command to an entry of the metadata log: what is allowed, and what it becomes.

Pure: looks at a state, changes nothing. Always: an entry says everything that its command left
open. Read commands.py (what holds secrets as hashes), decide.py, topic_options.py.
"""
