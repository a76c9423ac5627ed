"""Statuses that clients up to SDK 0.7 know by another number, and errors as text.

The number that a raised error has for them is its own matter where it depends on what was asked
(BrokerError.older_status). The rest is this table. A status that their SDK does not know is shown
as a nameless error.
"""

from collections.abc import Mapping
from typing import Final

from borzoi.protocol.errors import (
    BrokerError,
    ConsumerOffsetNotFound,
    InvalidCommand,
    InvalidFormat,
    InvalidIdentifier,
    InvalidPartitionsCount,
    NotResolvedConsumer,
    StreamDirectoryNotFound,
    TooManyPartitions,
    error_for,
)
from borzoi.protocol.framing import RESPONSE_HEADER, ClassicFraming
from borzoi.protocol.payload import U32

OLDER_STATUSES: Final[Mapping[int, int]] = {
    InvalidFormat.status: InvalidCommand.status,
    InvalidIdentifier.status: InvalidCommand.status,
    InvalidPartitionsCount.status: TooManyPartitions.status,
    NotResolvedConsumer.status: ConsumerOffsetNotFound.status,
}

TEXTS: Final[Mapping[int, str]] = {
    StreamDirectoryNotFound.status: "the id that was asked for is that of another stream",
}
"""Of statuses that mean something else for later clients."""


def older_status(error: BrokerError) -> int:
    """The status of an error for a client up to SDK 0.7."""
    if error.older_status is not None:
        return error.older_status
    return OLDER_STATUSES.get(error.status, error.status)


class TextFraming(ClassicFraming):
    """Errors of SDK 0.2.5 to 0.6.51: a text follows the header, its length u32 before it."""

    __slots__ = ()

    def status(self, status: int) -> bytes:
        """A whole response; one with an error says what it is."""
        if status == 0:
            return super().status(status)
        text = (TEXTS.get(status) or error_for(status).says).encode()
        return b"".join(
            (RESPONSE_HEADER.pack(status, U32.size + len(text)), U32.pack(len(text)), text)
        )
