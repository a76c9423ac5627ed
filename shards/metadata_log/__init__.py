"""The metadata log on disk: entries, snapshots, shortening, followers.

Owns state.messages and its snapshots. Read writer.py (shard 0), follower.py (the others).
"""
