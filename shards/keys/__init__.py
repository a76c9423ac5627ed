"""`borzoi encryption`: which keys there are and what needs them; another key; none of the old ones.

Owns the key file while a command changes it. The exchange itself is done by the broker, now or at
its next start (shards/rotation).
"""
