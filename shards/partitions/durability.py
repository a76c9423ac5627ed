"""What an acknowledgement means."""

from enum import StrEnum


class Durability(StrEnum):
    """The modes of `system.partition.durability`."""

    BUFFERED = "buffered"  # in the owner's memory; lost with the process
    WRITTEN = "written"  # pwritev returned; survives kill -9 of everything
    FSYNC = "fsync"  # fdatasync returned; survives a power cut
    REPLICATED = "replicated"  # in the store of the cluster; survives the loss of this machine
