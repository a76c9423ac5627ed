"""Liftbridge: its gRPC API and its messages, on top of ports to partitions and metadata.

Knows no session of Iggy's protocol and no shard. What it needs of the broker are the protocols in
ports.py, which shards/bridge implements; both are imported only where `liftbridge.enabled` is set.
Always: a stream of Liftbridge is a topic, and what is published is a message of that topic like any
other. Read stored.py and subjects.py (pure), ports.py, bridge.py, publishing.py, subscription.py,
then server.py, which answers calls.
"""
