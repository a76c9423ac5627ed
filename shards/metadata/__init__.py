"""Streams, topics, groups, users: decided by shard 0, logged, applied alike by every shard."""
