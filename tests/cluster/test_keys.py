import pytest

from borzoi.cluster.keys import (
    Checkpoint,
    checkpoint_key,
    checkpoint_of,
    pack_key,
    slot_key,
    slot_of,
)
from borzoi.cluster.slots import META_LANE


def test_the_names_are_these() -> None:
    name = Checkpoint(next=1234, fence=1100)
    assert slot_key(3, 17) == "lanes/0003/wal/00000000000000000017"
    assert slot_key(META_LANE, 1) == "lanes/meta/wal/00000000000000000001"
    numbers = "00000000000000001234-00000000000000001100"
    assert checkpoint_key(3, name) == f"lanes/0003/checkpoints/{numbers}"
    assert pack_key(3, name) == f"lanes/0003/packs/{numbers}"


def test_names_come_back_and_sort_as_numbers() -> None:
    slots = [1, 9, 10, 2**64 - 1]
    keys = [slot_key(0, slot) for slot in slots]
    assert sorted(keys) == keys
    assert [slot_of(key) for key in keys] == slots
    name = Checkpoint(2**64 - 1, 2**63)
    assert checkpoint_of(checkpoint_key(0, name)) == checkpoint_of(pack_key(0, name)) == name


@pytest.mark.parametrize(
    "name",
    ["", "1", "0" * 19, "0" * 21, "-" * 20, " " * 19 + "1", "\u0661" * 20, "0" * 20 + ".tmp"],
)
def test_other_names_are_none_of_ours(name: str) -> None:
    assert slot_of(f"lanes/0000/wal/{name}") is None
    assert checkpoint_of(f"lanes/0000/checkpoints/{name}-{'0' * 20}") is None
    assert checkpoint_of(f"lanes/0000/checkpoints/{'0' * 20}-{name}") is None
