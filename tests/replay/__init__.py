"""Recorded sessions: what clients wrote and what the broker answered, replayed byte for byte.

A session is recorded once, through a proxy, against a broker whose answers are known to be right.
Replaying it against the present code is the proof that no answer has changed. Nothing of
borzoi.protocol takes part in cutting, masking or comparing: code that is changed must not judge
itself. Read in this order: session (the file), cutting (frames), masks (what may differ), player,
proxy, then the three scripts (official_script, own_script, raw_script) and their commands:

    python -m tests.replay.record --broker /path/to/checkout official own raw
    python -m tests.replay.replay [--broker /path/to/checkout] [--shards 2] [FILE...]
"""
