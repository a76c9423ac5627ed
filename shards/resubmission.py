"""A batch whose owner died with it in its hands: what of it lies in the log already?"""

from borzoi.protocol.batch import first_stamped_offset
from borzoi.shards.owned_partition import OwnedPartition
from borzoi.shards.readers import Readers


def stored_since(
    readers: Readers, partition: OwnedPartition, batch: memoryview, message_count: int
) -> memoryview | None:
    """What the log holds from the offset on that the dead owner had stamped first.

    As much of it as the batch could be; None if nothing of the batch can be there.
    """
    first = first_stamped_offset(batch)
    written = partition.log.written
    if first is None or not written.first_offset <= first < written.next_offset:
        return None
    found = readers.reader(partition.target).read(written, first, message_count, batch.nbytes)
    return memoryview(b"".join(found.views))
