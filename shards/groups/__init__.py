"""Consumer groups: who shares a topic, who polls what, and how partitions change hands."""
