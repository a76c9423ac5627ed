"""What of a batch lies in the log already, if the owner died while it appended the batch."""

from borzoi.protocol.batch import first_stamped_offset
from borzoi.shards.partitions.partition import OwnedPartition
from borzoi.shards.reading.readers import PartitionReaders


def stored_since(
    readers: PartitionReaders, partition: OwnedPartition, batch: memoryview, message_count: int
) -> memoryview | None:
    """What the log holds from the offset on that the dead owner had stamped first.

    As much of it as the batch could be; None if nothing of the batch can be there.
    """
    first = first_stamped_offset(batch)
    written = partition.log.written
    if first is None or not written.first_offset <= first < written.next_offset:
        return None
    reader = readers.reader(partition.target)
    # A read may return fewer than asked for, at a bound of its own. Stored messages may be larger
    # than sent ones, but not twice as large.
    stored: list[memoryview] = []
    count = 0
    while count < message_count:
        found = reader.read(written, first + count, message_count - count, 2 * batch.nbytes)
        if not found.message_count:
            break
        stored += found.views
        count += found.message_count
    return memoryview(b"".join(stored))
