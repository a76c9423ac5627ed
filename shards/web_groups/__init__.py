"""Consumer groups over HTTP: members without a connection, each held by a lease.

Owns the leased members of this shard. Always: a member acts for the user that joined, and one whose
lease has ended holds nothing. Read members.py (leases), member_requests.py (asking the shard of a
member), consuming.py (the routes).
"""
