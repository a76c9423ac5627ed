"""What this shard owns and writes.

Always: one writer per partition, this worker's loop; a batch is answered after it is as durable
as the mode says. Read partition.py (the data), owned.py (the set), durability.py (the modes),
group_commit.py (a turn's writes), recovery_saves.py, resubmission.py (a batch whose owner died),
deduplication.py.
"""
