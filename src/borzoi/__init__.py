"""borzoi: a message-streaming broker for multi-core Linux hosts, served by pinned shards."""

__version__ = "0.1.0"
