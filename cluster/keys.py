"""The names of a lane's objects, below the prefix of a cluster. Pure.

    lanes/<4 digits | meta>/wal/<slot>                  slots
    lanes/<4 digits | meta>/checkpoints/<next>-<fence>  the state as of all slots before <next>
    lanes/<4 digits | meta>/packs/<next>-<fence>        messages that this checkpoint moved there

Numbers have 20 digits, so names sort as numbers do.
"""

from typing import Final, NamedTuple

from borzoi.cluster.slots import META_LANE

DIGITS: Final = 20
LANE_DIGITS: Final = 4
LANES_MAX: Final = 10**LANE_DIGITS


class Checkpoint(NamedTuple):
    """Which checkpoint, or pack: of all slots before `next`, by the writer behind `fence`."""

    next: int
    fence: int


def lane_prefix(lane: int) -> str:
    """Returns what the keys of a lane begin with."""
    assert lane == META_LANE or 0 <= lane < LANES_MAX
    return f"lanes/{'meta' if lane == META_LANE else f'{lane:0{LANE_DIGITS}d}'}"


def slots_prefix(lane: int) -> str:
    """Returns the prefix of the slots of a lane."""
    return f"{lane_prefix(lane)}/wal"


def checkpoints_prefix(lane: int) -> str:
    """Returns the prefix of the checkpoints of a lane."""
    return f"{lane_prefix(lane)}/checkpoints"


def packs_prefix(lane: int) -> str:
    """Returns the prefix of the packs of a lane."""
    return f"{lane_prefix(lane)}/packs"


def slot_key(lane: int, slot: int) -> str:
    """Returns the key of a slot."""
    return f"{slots_prefix(lane)}/{slot:0{DIGITS}d}"


def checkpoint_key(lane: int, checkpoint: Checkpoint) -> str:
    """Returns the key of a checkpoint."""
    return f"{checkpoints_prefix(lane)}/{_name(checkpoint)}"


def pack_key(lane: int, checkpoint: Checkpoint) -> str:
    """Returns the key of the pack that a checkpoint made."""
    return f"{packs_prefix(lane)}/{_name(checkpoint)}"


def slot_of(key: str) -> int | None:
    """The slot that a key names, None if it is another key."""
    return _number(key.rpartition("/")[2])


def checkpoint_of(key: str) -> Checkpoint | None:
    """The checkpoint whose own key or whose pack's key this is, None if it is another key."""
    after, _, fence = key.rpartition("/")[2].partition("-")
    numbers = _number(after), _number(fence)
    return None if numbers[0] is None or numbers[1] is None else Checkpoint(numbers[0], numbers[1])


def _name(checkpoint: Checkpoint) -> str:
    return f"{checkpoint.next:0{DIGITS}d}-{checkpoint.fence:0{DIGITS}d}"


def _number(text: str) -> int | None:
    return int(text) if len(text) == DIGITS and text.isascii() and text.isdigit() else None
