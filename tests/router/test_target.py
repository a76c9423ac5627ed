"""How a partition is named in the log."""

from borzoi.router.placement import pack_namespace
from borzoi.router.target import Target


def test_a_partition_in_words() -> None:
    target = Target(pack_namespace(1, 2, 3), birth=7, slot=9)
    assert f"partition {target}: gone" == "partition 3 of stream 1, topic 2: gone"
    assert "partition %s" % (target,) == f"partition {target}"  # noqa: UP031 - as logging does it
    assert target.partition_id == 3
