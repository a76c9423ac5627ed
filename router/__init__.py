"""Which shard owns a partition, and the shared memory that shards talk through."""
