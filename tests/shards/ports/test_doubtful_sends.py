"""What of a batch that is sent again is stored: found by its ids, behind the offset of the hint."""

import asyncio
from pathlib import Path
from typing import cast

import pytest

from borzoi.protocol.batch import clear_first_checksum
from borzoi.protocol.errors import RequestAlreadyApplied
from borzoi.protocol.message import Message, encode_messages
from borzoi.router.request_entry import Hint
from borzoi.shards.partitions.durability import Durability
from borzoi.shards.ports.doubtful_sends import (
    LOOK_SIZE_MAX,
    NOTHING_STORED,
    PIECE_SIZE,
    DoubtfulSends,
    StoredPart,
)
from borzoi.shards.ports.owners import PartitionOwners
from borzoi.shards.ports.requests import Flush
from tests.shards.owner import TARGET, Owner, Statuses


class Scene:
    """One owner, and what is asked of it."""

    def __init__(
        self, path: Path, look_size_max: int = LOOK_SIZE_MAX, piece_size: int = PIECE_SIZE
    ) -> None:
        self.owner = Owner(path, Durability.WRITTEN, segment_size_max=8192)
        self.asked: list[Flush] = []
        self.sends = DoubtfulSends(
            cast(PartitionOwners, self),
            self.owner.partitions.by_namespace,
            self.owner.readers,
            Durability.WRITTEN,
            look_size_max,
            piece_size,
        )

    async def ask(self, request: Flush) -> tuple[int, int, int]:
        """Stands in for the owners of partitions."""
        self.asked.append(request)
        return 0, 0, 0

    def append(self, *messages: Message) -> None:
        statuses = Statuses()
        self.owner.append(batch(*messages), len(messages), statuses)
        self.owner.loop.turn()
        assert statuses == [0]

    @property
    def hint(self) -> Hint:
        """What is noted of a batch that goes to the partition now."""
        return Hint(TARGET.namespace, TARGET.birth, self.sends.next_offset(TARGET))

    def stored(self, hint: Hint, *messages: Message) -> StoredPart:
        return asyncio.run(self.sends.stored(TARGET, batch(*messages), len(messages), hint))


def batch(*messages: Message) -> memoryview:
    made = memoryview(bytearray(encode_messages(messages)))
    clear_first_checksum(made)
    return made


def some(first: int, count: int, size: int = 100) -> list[Message]:
    return [Message(bytes(size), id=1000 + number) for number in range(first, first + count)]


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    made = Scene(tmp_path)
    made.append(*some(500, 3))
    return made


@pytest.mark.parametrize("is_own", [True, False])
def test_the_next_offset_is_that_of_the_same_life(scene: Scene, is_own: bool) -> None:
    own = scene.owner.partitions.by_namespace
    sends = DoubtfulSends(
        cast(PartitionOwners, scene), own if is_own else {}, scene.owner.readers, Durability.WRITTEN
    )
    assert sends.next_offset(TARGET) == 3
    assert sends.next_offset(TARGET._replace(birth=TARGET.birth + 1)) == 0


@pytest.mark.parametrize("others_before", [0, 1, 200])
@pytest.mark.parametrize("stored", [0, 1, 4, 5])
def test_the_first_messages_may_be_stored(scene: Scene, others_before: int, stored: int) -> None:
    """Over several segments, and with batches of others before and behind."""
    hint, sent = scene.hint, some(0, 5)
    if others_before:
        scene.append(*some(1000, others_before))
    if stored:
        scene.append(*sent[:stored])
    scene.append(*some(2000, 200))
    expected = StoredPart(stored, 3 + others_before) if stored else NOTHING_STORED
    assert scene.stored(hint, *sent) == expected
    assert scene.asked == [Flush(TARGET, False)]


def test_what_was_appended_later_is_found_behind_the_rest(scene: Scene) -> None:
    hint, sent = scene.hint, some(0, 5)
    scene.append(*sent[:2])
    scene.append(*some(1000, 300))
    scene.append(*sent[2:4])
    assert scene.stored(hint, *sent) == StoredPart(4, 3)


def test_an_id_in_a_payload_is_no_message(scene: Scene) -> None:
    hint, sent = scene.hint, some(0, 2)
    fake = Message(encode_messages(sent), id=77)
    scene.append(fake, *some(1000, 2), fake)
    assert scene.stored(hint, *sent) == NOTHING_STORED
    scene.append(*sent)
    assert scene.stored(hint, *sent) == StoredPart(2, 7)


def test_what_lies_before_the_hint_is_not_looked_at(scene: Scene) -> None:
    """Under another number the same messages are another batch."""
    sent = some(0, 2)
    scene.append(*sent)
    assert scene.stored(scene.hint, *sent) == NOTHING_STORED


def test_the_look_has_an_end(tmp_path: Path) -> None:
    scene = Scene(tmp_path, look_size_max=5000, piece_size=2000)
    scene.append(*some(500, 3))
    hint, sent = scene.hint, some(0, 2)
    scene.append(*some(1000, 20))
    scene.append(*sent)
    assert scene.stored(hint, *sent) == StoredPart(2, 23)
    scene.append(*some(2000, 40))
    later = some(10, 2)
    scene.append(*later)
    assert scene.stored(hint, *later) == NOTHING_STORED


def test_another_life_of_the_partition_holds_nothing_of_it(scene: Scene) -> None:
    hint, sent = scene.hint, some(0, 2)
    scene.append(*sent)
    assert scene.stored(hint._replace(birth=hint.birth - 1), *sent) == NOTHING_STORED
    assert scene.asked == []


def test_what_may_be_stored_and_deleted_is_not_appended_again(scene: Scene) -> None:
    published = scene.owner.published
    scene.owner.board.publish(TARGET.slot, published._replace(first_offset=2))
    with pytest.raises(RequestAlreadyApplied, match="begins with offset 2 by now"):
        scene.stored(Hint(TARGET.namespace, TARGET.birth, 1), *some(0, 2))
