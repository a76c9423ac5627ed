"""Whether the rows of a range are those that were there when it was planned.

Offsets begin at 0 again when a partition is purged or its topic is created again. Nothing in an
answer distinguishes one life of a partition from the next. So the plan of a range has the time of
its last row, the witness. A life only ends once: rows that were read before a witness that is still
the same are of that life, too. A range that has the witness in it costs no request more. A piece of
a split one asks for it, once, behind its last row. Where a row is younger than the witness, the
witness is asked at once, before that row is given away. That happens in another life, or when the
broker's clock was set back: clocks raise doubts, they decide nothing.

Not noticed: another life in which the witness's offset has a row of the same microsecond, or in
which retention has deleted that row already.
"""

import logging
from collections.abc import Iterator
from enum import Enum, auto
from typing import Final

from borzoi.protocol.index_entry import INDEX_ENTRY
from borzoi.protocol.message import TIMESTAMP_AT
from borzoi.protocol.payload import U64
from borzoi.spark.failures import DataLoss
from borzoi.spark.polling import Polling, Run, first_row, lost
from borzoi.spark.positions import Range, RowTime

LOG: Final = logging.getLogger(__name__)
WHY: Final = "the partition was purged, or created again, since they were planned"


class Proof(Enum):
    """What rows, read one after the other, say about the life that they are of."""

    SAME = auto()
    OTHER = auto()
    OPEN = auto()
    DOUBTFUL = auto()


def proved(runs: Iterator[Run], wanted: Range, polling: Polling) -> Iterator[Run]:
    """The runs, as long as they are of the life that was planned; else the rule for lost data."""
    witness = wanted.witness
    is_open = False
    for run in runs:
        if witness is not None:
            proof = proof_of(run, witness)
            if proof is Proof.DOUBTFUL:
                proof = asked(polling, wanted, witness)
            if proof is Proof.OTHER:
                lost(wanted, run.first_offset, wanted.end, WHY, polling.fail_on_data_loss)
                return
            is_open = proof is Proof.OPEN
        yield run
    if witness is not None and is_open and asked(polling, wanted, witness) is Proof.OTHER:
        text = (
            f"partition {wanted.partition} of topic {wanted.topic} was purged, or created again,"
            f" while rows {wanted.begin} to {wanted.end - 1} were read: they may be other ones"
        )
        if polling.fail_on_data_loss:
            raise DataLoss(f"{text}. With failOnDataLoss=false they are taken as they are")
        LOG.warning("%s: %s", DataLoss.code, text)


def proof_of(run: Run, witness: RowTime) -> Proof:
    """Returns what a run of messages proves about the witness."""
    number = witness.offset - run.first_offset
    if 0 <= number < run.message_count:
        is_same = time_of(run, number) == witness.timestamp
        return Proof.SAME if is_same else Proof.OTHER
    is_younger = time_of(run, run.message_count - 1) > witness.timestamp
    return Proof.DOUBTFUL if is_younger else Proof.OPEN


def asked(polling: Polling, wanted: Range, witness: RowTime) -> Proof:
    """Returns what the row at the witness's offset proves. Asks the broker."""
    return proof_by(first_row(polling, wanted._replace(begin=witness.offset)), witness)


def proof_by(found: RowTime | None, witness: RowTime) -> Proof:
    """`found` is the first row that the partition has now, at the offset or behind it."""
    if found is None:
        return Proof.OTHER  # nothing that was appended goes away from behind
    if found.offset > witness.offset:
        return Proof.OPEN  # deleted from the front, as retention does
    return Proof.SAME if found.timestamp == witness.timestamp else Proof.OTHER


def time_of(run: Run, number: int) -> int:
    """When a row was written; `number` counts from the first of the run."""
    start = 0
    if number:
        _, start, _ = INDEX_ENTRY.unpack_from(run.entries, (number - 1) * INDEX_ENTRY.size)
    time: int = U64.unpack_from(run.messages, start + TIMESTAMP_AT)[0]
    return time
