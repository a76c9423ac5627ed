"""Messages at the edge between the stored layout and those of other client generations.

Layouts are drawn in edge_layouts.py. What arrives is checked and converted to a batch as it is
stored; what leaves is converted when it is polled. The loops exist twice, compiled and in plain
Python (loops.py says which run), and are described where they are plain: plain_arriving.py,
plain_leaving.py. A poll that is small is converted by whole(); a larger one piece by piece, so
that other connections get their turn.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from borzoi.protocol.edge_layouts import EdgeLayout
from borzoi.protocol.loops import LOOPS
from borzoi.protocol.message_form import MessageForm

if LOOPS == "compiled":
    from borzoi.protocol._arriving import (
        find_consensus_send,
        stored_from_consensus,
        stored_from_old,
        stored_from_short,
    )
    from borzoi.protocol._leaving import converted, converted_piece, converted_size
else:
    from borzoi.protocol.plain_arriving import (
        find_consensus_send,
        stored_from_consensus,
        stored_from_old,
        stored_from_short,
    )
    from borzoi.protocol.plain_leaving import converted, converted_piece, converted_size

__all__ = [
    "BARE_KEYS_FORM",
    "CONSENSUS_FORM",
    "HYBRID_FORM",
    "OLD_FORM",
    "find_consensus_send",
    "stored_from_consensus",
    "stored_from_old",
    "stored_from_short",
]


@dataclass(frozen=True, slots=True)
class ConvertedForm:
    """Stored messages in another layout: a MessageForm."""

    layout: EdgeLayout
    partition_base: int

    def size(self, views: Sequence[memoryview], partition_id: int) -> int:
        """How many bytes pieces() gives, exactly."""
        del partition_id  # every one has the same size
        return converted_size(self.layout, views)

    def pieces(self, views: Sequence[memoryview], partition_id: int) -> Iterator[bytes]:
        """The messages as they leave, converted when asked for, about a MiB at a time."""
        filled = [view for view in views if len(view)]
        for number, view in enumerate(filled, start=1):
            at = 0
            while at < len(view):
                piece, at = converted_piece(
                    self.layout, view, at, partition_id, number == len(filled)
                )
                yield piece

    def whole(self, views: Sequence[memoryview], partition_id: int) -> bytes:
        """All pieces at once: for a poll that is small, cheaper than size() and pieces()."""
        if not views:
            return b""  # there may be no partition either: it is -1 in some generations
        return converted(self.layout, views, partition_id)


CONSENSUS_FORM: Final[MessageForm] = ConvertedForm(EdgeLayout.CONSENSUS, 0)
OLD_FORM: Final[MessageForm] = ConvertedForm(EdgeLayout.OLD, 1)
HYBRID_FORM: Final[MessageForm] = ConvertedForm(EdgeLayout.SHORT, 1)
BARE_KEYS_FORM: Final[MessageForm] = ConvertedForm(EdgeLayout.SHORT, 0)
