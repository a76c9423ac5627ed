"""Consumer groups: members, assignments, claims.

Shard 0's coordinator owns the rosters; the owner of a partition owns its claim. Always: a
partition has at most one claimant per group. Read coordinator.py, dispatch.py, claims.py, then
service.py; what shards ask each other stands in requests.py and member_requests.py.
"""
