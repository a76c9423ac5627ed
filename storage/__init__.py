"""The segmented append-only log of a partition, its indexes and offsets, and the metadata log."""
