"""The owner's partitions: batches submitted again after a death, and lives that end."""

import errno
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from borzoi.protocol.batch import first_stamped_offset, message_start
from borzoi.protocol.errors import PartitionNotFound
from borzoi.protocol.identifiers import ConsumerKind
from borzoi.shards.metadata.effects import Effects, RunPurged, RunRemoved
from borzoi.shards.metadata.state import Run
from borzoi.shards.partitions.durability import Durability
from borzoi.storage.encrypted import Encryption
from borzoi.storage.segment_form import MESSAGE_OVERHEAD
from tests.shards.owner import (
    CONSUMERS_MAX,
    JOURNAL_MESSAGES_MAX,
    TARGET,
    Owner,
    Statuses,
    batch_of,
)
from tests.storage.ciphers import KEY

PAYLOADS = [b"one" * 10, b"two" * 20, b"three" * 5, b"four" * 8]

OLD = Run(0, 1, TARGET.birth, TARGET.slot, 0)
NEW = Run(0, 1, 9, TARGET.slot, 0)

ENCRYPTION = Encryption(KEY, encrypts=True)

NewOwner = Callable[..., Owner]


@pytest.fixture
def new_owner(tmp_path: Path) -> Iterator[NewOwner]:
    made: list[Owner] = []

    def make(durability: Durability, encryption: Encryption | None = None) -> Owner:
        owner = Owner(tmp_path / f"data{len(made)}", durability, encryption=encryption)
        made.append(owner)
        return owner

    yield make
    for owner in made:
        owner.close()


@pytest.fixture(params=["written", "fsync", "encrypted"])
def owner(new_owner: NewOwner, request: pytest.FixtureRequest) -> Owner:
    if request.param == "encrypted":
        return new_owner(Durability.WRITTEN, ENCRYPTION)
    return new_owner(Durability(request.param))


def test_stored_offsets_tell_of_the_fullest_partition_and_of_all_refusals(
    new_owner: NewOwner,
) -> None:
    owner = new_owner(Durability.WRITTEN)
    assert owner.partitions.offset_figures() == (CONSUMERS_MAX, 0, 0, 0, 0, 0)
    owner.send(b"x")
    owner.loop.settle()
    for consumer in range(CONSUMERS_MAX):
        done = Statuses().done
        owner.partitions.store_offset(TARGET, ConsumerKind.CONSUMER, consumer, 0, 7, done)
    owner.loop.settle()
    half = CONSUMERS_MAX // 2
    figures = owner.partitions.offset_figures()
    assert figures == (CONSUMERS_MAX, half, half, 1, 0, CONSUMERS_MAX - half)


def finish(owner: Owner) -> None:
    """Let the loop and the disk do all there is to do."""
    owner.loop.settle()
    while owner.disk.waiting:
        owner.disk.run_next()
        owner.loop.settle()


def die_after_write(owner: Owner, batch: memoryview, count: int) -> None:
    """The owner stamps and writes the batch and is killed before it can answer."""
    before = owner.send(b"before")
    finish(owner)
    assert before == [0]
    owner.append(batch, count, Statuses())
    finish(owner)
    owner.succeed()


def submit_again(owner: Owner, batch: memoryview, count: int) -> Statuses:
    statuses = Statuses()
    owner.append(batch, count, statuses, resubmitted=True)
    finish(owner)
    return statuses


def test_a_batch_that_was_stored_whole_is_acknowledged_and_not_appended(owner: Owner) -> None:
    batch = batch_of(*PAYLOADS)
    die_after_write(owner, batch, len(PAYLOADS))
    size = owner.log_file.stat().st_size
    assert submit_again(owner, batch, len(PAYLOADS)) == [0]
    assert owner.visible() == [b"before", *PAYLOADS]
    assert owner.log_file.stat().st_size == size
    after = owner.send(b"after")
    finish(owner)
    assert after == [0]
    assert owner.visible() == [b"before", *PAYLOADS, b"after"]


@pytest.mark.parametrize("stored", range(len(PAYLOADS) + 1))
@pytest.mark.parametrize("torn_bytes", [0, 1, 64, 70])
def test_only_what_a_torn_write_left_out_is_appended(
    owner: Owner, stored: int, torn_bytes: int
) -> None:
    batch = batch_of(*PAYLOADS)
    before = owner.send(b"before")
    finish(owner)
    assert before == [0]
    start = owner.log_file.stat().st_size
    board = owner.published
    owner.append(batch, len(PAYLOADS), Statuses())
    finish(owner)
    # As if the process had been killed inside pwritev, and before any publication.
    whole = message_start(batch, stored)
    if owner.encryption is not None:
        whole += stored * MESSAGE_OVERHEAD
    cut = min(start + whole + torn_bytes, owner.log_file.stat().st_size)
    with owner.log_file.open("r+b") as file:
        file.truncate(cut)
    owner.board.publish(TARGET.slot, board)
    owner.succeed()
    assert submit_again(owner, batch, len(PAYLOADS)) == [0]
    assert owner.visible() == [b"before", *PAYLOADS]
    owner.succeed()
    assert owner.visible() == [b"before", *PAYLOADS]


def test_a_batch_that_was_never_stamped_is_appended(owner: Owner) -> None:
    batch = batch_of(*PAYLOADS)
    assert first_stamped_offset(batch) is None
    die_after_write(owner, batch_of(b"of another connection"), 1)
    assert submit_again(owner, batch, len(PAYLOADS)) == [0]
    assert owner.visible() == [b"before", b"of another connection", *PAYLOADS]


def test_a_batch_that_was_stamped_but_not_written_is_appended(owner: Owner) -> None:
    batch = batch_of(*PAYLOADS)
    before = owner.send(b"before")
    finish(owner)
    assert before == [0]
    owner.append(batch, len(PAYLOADS), Statuses())
    assert first_stamped_offset(batch) == 1
    owner.succeed()  # before the turn ended
    assert submit_again(owner, batch, len(PAYLOADS)) == [0]
    assert owner.visible() == [b"before", *PAYLOADS]


def test_a_stamped_batch_is_appended_behind_another_one_that_lies_in_its_place(
    owner: Owner,
) -> None:
    batch = batch_of(*PAYLOADS)
    owner.append(batch, len(PAYLOADS), Statuses())
    assert first_stamped_offset(batch) == 0
    owner.succeed()
    other = owner.send(b"faster", b"than", b"we", b"are", b"now")
    finish(owner)
    assert other == [0]
    assert submit_again(owner, batch, len(PAYLOADS)) == [0]
    assert owner.visible() == [b"faster", b"than", b"we", b"are", b"now", *PAYLOADS]


def test_the_same_payloads_of_another_client_are_not_taken_for_ours(owner: Owner) -> None:
    batch = batch_of(*PAYLOADS)
    owner.append(batch, len(PAYLOADS), Statuses())
    owner.succeed()
    other = owner.send(*PAYLOADS)  # their ids differ
    finish(owner)
    assert other == [0]
    assert submit_again(owner, batch, len(PAYLOADS)) == [0]
    assert owner.visible() == [*PAYLOADS, *PAYLOADS]


def test_a_batch_that_was_stored_survives_two_deaths(owner: Owner) -> None:
    batch = batch_of(*PAYLOADS)
    die_after_write(owner, batch, len(PAYLOADS))
    owner.append(batch, len(PAYLOADS), Statuses(), resubmitted=True)
    owner.succeed()
    assert submit_again(owner, batch, len(PAYLOADS)) == [0]
    assert owner.visible() == [b"before", *PAYLOADS]


def test_a_stored_batch_in_mode_fsync_is_acknowledged_after_a_sync(new_owner: NewOwner) -> None:
    owner = new_owner(Durability.FSYNC)
    batch = batch_of(*PAYLOADS)
    die_after_write(owner, batch, len(PAYLOADS))
    statuses = Statuses()
    owner.append(batch, len(PAYLOADS), statuses, resubmitted=True)
    owner.loop.settle()
    assert statuses == []
    finish(owner)
    assert statuses == [0]


@pytest.mark.parametrize("encryption", [None, ENCRYPTION], ids=["plain", "encrypted"])
def test_mode_buffered_recognises_a_batch_that_reached_the_file(
    new_owner: NewOwner, encryption: Encryption | None
) -> None:
    owner = new_owner(Durability.BUFFERED, encryption)
    payloads = [b"%d" % number for number in range(JOURNAL_MESSAGES_MAX)]
    batch = batch_of(*payloads)
    owner.append(batch, len(payloads), Statuses())
    finish(owner)
    assert owner.visible() == payloads
    owner.succeed()
    assert submit_again(owner, batch, len(payloads)) == [0]
    owner.partitions.flush_journals()
    assert owner.visible() == payloads


def test_another_life_is_not_found(owner: Owner) -> None:
    sent = owner.send(b"a")
    finish(owner)
    assert sent == [0]
    for birth in (TARGET.birth - 1, TARGET.birth + 1):
        statuses = Statuses()
        owner.appends.append(TARGET._replace(birth=birth), batch_of(b"b"), 1, False, statuses.done)
        finish(owner)
        assert statuses == [PartitionNotFound.status]
    assert owner.visible() == [b"a"]


def test_a_purge_ends_a_life_and_begins_another(owner: Owner) -> None:
    stored = owner.send(b"old")
    finish(owner)
    staged = owner.send(b"old as well")
    owner.partitions.apply_effects(_purge())
    finish(owner)
    assert (stored, staged) == ([0], [0])
    new = TARGET._replace(birth=NEW.birth)
    assert owner.published.birth == NEW.birth
    assert owner.published.next_offset == 0
    late, fresh = Statuses(), Statuses()
    owner.appends.append(TARGET, batch_of(b"late"), 1, False, late.done)
    owner.appends.append(new, batch_of(b"new"), 1, False, fresh.done)
    finish(owner)
    assert late == [PartitionNotFound.status]
    assert fresh == [0]
    assert owner.published.birth == NEW.birth
    assert owner.published.next_offset == 1


def test_a_purge_makes_room_on_a_full_disk(owner: Owner) -> None:
    owner.send(b"old")
    finish(owner)
    owner.files.fail("write", errno.ENOSPC)
    owner.files.fail("mkdir", errno.ENOSPC)
    owner.partitions.apply_effects(_purge())
    assert not owner.log_file.exists()
    owner.files.repair()
    renewed = TARGET._replace(birth=NEW.birth)
    statuses = Statuses()
    owner.appends.append(renewed, batch_of(b"new"), 1, False, statuses.done)
    finish(owner)
    assert statuses == [0]
    published = owner.published
    assert (published.birth, published.next_offset) == (NEW.birth, 1)


def test_a_sync_of_the_old_life_publishes_nothing_in_the_new_one(new_owner: NewOwner) -> None:
    owner = new_owner(Durability.FSYNC)
    sent = owner.send(b"old")
    owner.loop.settle()
    assert len(owner.disk.waiting) == 1
    owner.partitions.apply_effects(_purge())
    finish(owner)
    assert len(sent) == 1
    assert owner.published.birth == NEW.birth
    assert owner.published.next_offset == 0


def test_a_deleted_partition_answers_everybody_and_leaves_no_directory(owner: Owner) -> None:
    stored = owner.send(b"old")
    finish(owner)
    staged = owner.send(b"staged")
    owner.partitions.apply_effects(_delete())
    finish(owner)
    assert (stored, staged) == ([0], [PartitionNotFound.status])
    assert not Path(owner.directory).exists()
    fresh = Statuses()
    owner.appends.append(TARGET._replace(birth=NEW.birth), batch_of(b"new"), 1, False, fresh.done)
    finish(owner)
    assert fresh == [0]
    assert owner.published.birth == NEW.birth
    assert owner.published.next_offset == 1


def _purge() -> Effects:
    return Effects(NEW.birth, purged=[RunPurged(0, 0, OLD, NEW)])


def _delete() -> Effects:
    return Effects(NEW.birth, removed=[RunRemoved(0, 0, OLD)])
