"""A partition as a request means it: the place of its data, not its name.

Ids are reused at once and a purge starts offsets at 0 again, so (stream, topic, partition) does not
name data. The birth does: it is the index of the metadata entry that created or last purged the
partition. Everything that crosses an `await` or a process carries it along.
"""

from typing import NamedTuple

from borzoi.router.placement import unpack_namespace


class Target(NamedTuple):
    """Where a request goes."""

    namespace: int
    birth: int
    slot: int

    @property
    def partition_id(self) -> int:
        """The number of the partition inside its topic."""
        return unpack_namespace(self.namespace)[2]

    def __str__(self) -> str:
        """For the log, behind the word "partition": "3 of stream 1, topic 2"."""
        stream_id, topic_id, partition_id = unpack_namespace(self.namespace)
        return f"{partition_id} of stream {stream_id}, topic {topic_id}"
