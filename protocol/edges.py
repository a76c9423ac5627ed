"""Messages at the edge between the stored layout and those of other client generations.

Layouts are drawn in edge_layouts.py. What arrives is checked and converted to a batch as it is
stored; what leaves is converted when it is polled. The loops exist twice, compiled and in plain
Python (loops.py says which run), and are described where they are plain: plain_arriving.py,
plain_leaving.py. A poll that is small is converted by whole(); a larger one piece by piece, so
that other connections get their turn.

Microseconds on a busy 2-core cloud machine with Python 3.11, best of 21 runs (plain: of 5),
compiled / plain; messages without user headers, 1 KB counts the stored header and 100 B does not.
A copy of the 1,000 x 1 KB by bytes() takes 21; from memory that is in no cache it takes 76, and
their batch record 103:

                                1 x 1 KB       1,000 x 1 KB     1,000 x 100 B
    a consensus batch arrives   0.1 / 2.6         37 / 1,162        13 / 1,096
    old messages arrive         0.1 / 1.2         36 / 1,003        19 / 941
    short heads arrive          0.1 / 1.4         29 / 1,007        13 / 997
    batch records leave         0.2 / 5.7         54 / 2,670        28 / 2,737
    old messages leave          0.6 / 3.8        380 / 2,275        49 / 1,819
    short heads leave           0.2 / 4.1         51 / 2,317        21 / 1,871

Old messages have a CRC-32, which costs most of their time.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from borzoi.protocol.edge_layouts import EdgeLayout
from borzoi.protocol.errors import CannotReadMessage
from borzoi.protocol.loops import LOOPS
from borzoi.protocol.message import MESSAGE_HEADER_SIZE, SENT_FIELDS
from borzoi.protocol.message_form import MessageForm

if LOOPS == "compiled":
    from borzoi.protocol._arriving import (
        find_consensus_send,
        stored_from_consensus,
        stored_from_old,
        stored_from_short,
    )
    from borzoi.protocol._leaving import (
        converted,
        converted_piece,
        converted_size,
        whole_messages,
    )
else:
    from borzoi.protocol.plain_arriving import (
        find_consensus_send,
        stored_from_consensus,
        stored_from_old,
        stored_from_short,
    )
    from borzoi.protocol.plain_leaving import (
        converted,
        converted_piece,
        converted_size,
        whole_messages,
    )

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
        return converted_size(self.layout, uncut(views))

    def pieces(self, views: Sequence[memoryview], partition_id: int) -> Iterator[bytes]:
        """The messages as they leave, converted when asked for, about a MiB at a time."""
        filled = [view for view in uncut(views) if len(view)]
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
        return converted(self.layout, uncut(views), partition_id)


def uncut(views: Sequence[memoryview]) -> Sequence[memoryview]:
    """The same messages, in views none of which ends in the middle of one.

    The log is mapped in windows, whose ends cut messages. Only what is cut is copied.
    """
    if len(views) <= 1:
        return views
    found: list[memoryview] = []
    rest = b""
    for view in views:
        start = 0
        if rest:
            start = _size_of_first(rest, view) - len(rest)
            if start > len(view):
                rest += view
                continue
            found.append(memoryview(rest + view[:start]))
        end = whole_messages(view, start)
        found.append(view[start:end])
        rest = bytes(view[end:])
    if rest:
        raise CannotReadMessage(f"a message of which {len(rest)} bytes are there, and no more")
    return found


def _size_of_first(rest: bytes, view: memoryview) -> int:
    """Of the message that begins with `rest` and goes on in the view; its header may as well."""
    head = rest[:MESSAGE_HEADER_SIZE] + view[: max(0, MESSAGE_HEADER_SIZE - len(rest))]
    if len(head) < MESSAGE_HEADER_SIZE:
        # Not even the header ends in this view: it has to be longer than that.
        return len(rest) + len(view) + 1
    _offset, headers_size, payload_size = SENT_FIELDS.unpack_from(head)
    size: int = MESSAGE_HEADER_SIZE + headers_size + payload_size
    return size


CONSENSUS_FORM: Final[MessageForm] = ConvertedForm(EdgeLayout.CONSENSUS, 0)
OLD_FORM: Final[MessageForm] = ConvertedForm(EdgeLayout.OLD, 1)
HYBRID_FORM: Final[MessageForm] = ConvertedForm(EdgeLayout.SHORT, 1)
BARE_KEYS_FORM: Final[MessageForm] = ConvertedForm(EdgeLayout.SHORT, 0)
