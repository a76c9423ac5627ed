"""Deduplication at the owner: what is stored, who is answered when, and what a death changes."""

import errno
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from borzoi.protocol.batch import clear_first_checksum, first_stamped_offset, message_start
from borzoi.protocol.errors import (
    CannotReadFile,
    CannotSaveMessagesToSegment,
    CannotSyncFile,
    PartitionNotFound,
)
from borzoi.protocol.message import Message, decode_messages, encode_messages
from borzoi.shards.metadata.effects import Effects, RunPurged, RunRemoved
from borzoi.shards.metadata.state import Run
from borzoi.shards.partitions.durability import Durability
from borzoi.storage.encrypted import Encryption
from tests.shards.owner import JOURNAL_MESSAGES_MAX, TARGET, Owner, Statuses
from tests.storage.ciphers import KEY

OLD = Run(0, 1, TARGET.birth, TARGET.slot, 0)
NEW = Run(0, 1, 9, TARGET.slot, 0)
SECOND = 1_000_000
WINDOW = (1000, 60 * SECOND)
ENCRYPTION = Encryption(KEY, encrypts=True)

NewOwner = Callable[..., Owner]


@pytest.fixture
def new_owner(tmp_path: Path) -> Iterator[NewOwner]:
    made: list[Owner] = []

    def make(
        durability: Durability = Durability.WRITTEN,
        window: tuple[int, int] = WINDOW,
        encryption: Encryption | None = None,
    ) -> Owner:
        owner = Owner(
            tmp_path / f"data{len(made)}",
            durability,
            segment_size_max=512,
            window=window,
            encryption=encryption,
        )
        made.append(owner)
        return owner

    yield make
    for owner in made:
        owner.close()


@pytest.fixture(params=[Durability.WRITTEN, Durability.FSYNC])
def owner(new_owner: NewOwner, request: pytest.FixtureRequest) -> Owner:
    return new_owner(request.param)


def batch_of(*ids: int) -> memoryview:
    batch = memoryview(bytearray(encode_messages(Message(b"%d" % id, id) for id in ids)))
    clear_first_checksum(batch)
    return batch


def finish(owner: Owner) -> None:
    owner.loop.settle()
    while owner.disk.waiting:
        owner.disk.run_next()
        owner.loop.settle()


def begin(owner: Owner, *ids: int) -> Statuses:
    """Append; the turn is not over yet."""
    statuses = Statuses()
    owner.append(batch_of(*ids), len(ids), statuses)
    return statuses


def send(owner: Owner, *ids: int) -> None:
    statuses = begin(owner, *ids)
    finish(owner)
    assert statuses == [0]


def submit_again(owner: Owner, batch: memoryview, count: int) -> None:
    statuses = Statuses()
    owner.append(batch, count, statuses, resubmitted=True)
    finish(owner)
    assert statuses == [0]


def stored(owner: Owner) -> list[int]:
    """The numbers sent, by their payloads; `visible` sees to it that offsets have no gaps."""
    if owner.durability is Durability.BUFFERED:
        owner.partitions.flush_journals()
    return [int(payload) for payload in owner.visible()]


def test_duplicates_are_dropped_and_offsets_have_no_gaps(owner: Owner) -> None:
    send(owner, 1, 2, 3)
    send(owner, 2, 4, 4, 1, 5)
    send(owner, 1, 2)
    send(owner, 6)
    assert stored(owner) == [1, 2, 3, 4, 5, 6]
    assert owner.deduplication is not None
    assert owner.deduplication.dropped == 5


@pytest.mark.parametrize("durability", list(Durability))
def test_a_batch_says_where_its_first_new_message_lies_or_else_its_original(
    new_owner: NewOwner, durability: Durability
) -> None:
    owner = new_owner(durability, (7, 0))

    def offset_of(*ids: int) -> int | None:
        batch = batch_of(*ids)
        statuses = Statuses()
        owner.append(batch, len(ids), statuses)
        finish(owner)
        assert statuses == [0]
        return first_stamped_offset(batch)

    assert offset_of(1, 2, 3) == 0
    assert offset_of(2, 1, 4, 5) == 3
    for known in range(1, 6):
        assert offset_of(known, 3) == known - 1
    assert offset_of(6, 7, 8, 9) == 5
    # The first two have left the window, the others are in their new places of the ring.
    assert [offset_of(known) for known in (3, 6, 9)] == [2, 5, 8]
    owner.succeed()
    if durability is not Durability.BUFFERED:
        assert [offset_of(known) for known in (3, 6, 9)] == [2, 5, 8]
    assert stored(owner) == list(range(1, 10))


def test_a_batch_of_duplicates_may_be_submitted_again(owner: Owner) -> None:
    send(owner, 1, 2, 3)
    batch = batch_of(3, 2)
    owner.append(batch, 2, Statuses())
    owner.succeed()
    submit_again(owner, batch, 2)
    assert first_stamped_offset(batch) == 2
    assert stored(owner) == [1, 2, 3]


def test_a_new_partition_has_its_window_at_once(owner: Owner) -> None:
    statuses = begin(owner, 1)
    assert owner.disk.waiting == []
    assert owner.partition.delayed == []
    finish(owner)
    assert statuses == [0]


def test_messages_without_an_id_are_all_stored(owner: Owner) -> None:
    send(owner, 0, 0)
    send(owner, 0, 7, 0)
    owner.succeed()
    send(owner, 0, 7)
    assert stored(owner) == [0, 0, 0, 7, 0, 0]


def test_a_batch_of_duplicates_is_answered_with_the_originals_it_depends_on(
    new_owner: NewOwner,
) -> None:
    owner = new_owner()
    owner.files.fail("write", errno.ENOSPC)
    first, second = begin(owner, 1, 2), begin(owner, 2, 1)
    finish(owner)
    failed = [CannotSaveMessagesToSegment.status]
    assert (first, second) == (failed, failed)
    # What was refused is not known: it can be sent again.
    owner.files.repair()
    send(owner, 2, 1)
    assert stored(owner) == [2, 1]


def test_a_failed_write_forgets_only_what_it_took_along(owner: Owner) -> None:
    send(owner, 1, 2)
    owner.files.fail("write", errno.ENOSPC)
    refused = begin(owner, 2, 3)
    finish(owner)
    assert refused == [CannotSaveMessagesToSegment.status]
    owner.files.repair()
    send(owner, 1, 2, 3, 4)
    assert stored(owner) == [1, 2, 3, 4]


def test_a_duplicate_of_what_is_not_synced_waits_for_the_sync(new_owner: NewOwner) -> None:
    owner = new_owner(Durability.FSYNC)
    original = begin(owner, 1)
    owner.loop.settle()
    repeated = begin(owner, 1)
    owner.loop.settle()
    assert (original, repeated) == ([], [])
    finish(owner)
    assert (original, repeated) == ([0], [0])
    assert stored(owner) == [1]


def test_a_duplicate_of_what_cannot_be_synced_is_refused(new_owner: NewOwner) -> None:
    owner = new_owner(Durability.FSYNC)
    send(owner, 5)
    owner.files.fail("fdatasync", errno.EIO)
    original = begin(owner, 1)
    owner.loop.settle()
    repeated = begin(owner, 1)
    finish(owner)
    failed = {CannotSyncFile.status, CannotSaveMessagesToSegment.status}
    assert set(original) <= failed
    assert set(repeated) <= failed
    assert len(original) == len(repeated) == 1
    late = begin(owner, 1)
    finish(owner)
    assert late == [CannotSaveMessagesToSegment.status]


def test_ids_expire_on_the_clock_of_the_partition(owner: Owner) -> None:
    send(owner, 1)
    owner.now_us -= 3600 * SECOND  # a clock that goes back: the partition's stands still
    send(owner, 1)
    assert stored(owner) == [1]
    owner.now_us += 3600 * SECOND + WINDOW[1] - 1
    send(owner, 1)
    assert stored(owner) == [1]
    owner.now_us += 1
    send(owner, 1)
    assert stored(owner) == [1, 1]


@pytest.mark.parametrize("passed", [WINDOW[1] - 1, WINDOW[1]])
def test_a_window_that_was_read_back_expires_like_the_one_that_was_lost(
    owner: Owner, passed: int
) -> None:
    send(owner, 1)
    owner.now_us += 10
    send(owner, 2)
    owner.succeed()
    owner.now_us += passed - 10
    send(owner, 1, 2)
    assert stored(owner) == ([1, 2] if passed < WINDOW[1] else [1, 2, 1])


@pytest.mark.parametrize("encryption", [None, ENCRYPTION], ids=["plain", "encrypted"])
def test_exactly_the_last_so_many_are_known_after_a_restart(
    new_owner: NewOwner, encryption: Encryption | None
) -> None:
    owner = new_owner(Durability.WRITTEN, (5, 0), encryption)
    send(owner, *range(1, 21))
    for number in range(21, 31):
        send(owner, number)  # several segments
    assert owner.published.segment_count > 1
    # Not only the last ones, so that every place in a segment has its turn.
    for number in range(31, 41):
        owner.succeed()
        send(owner, *range(number - 5, number))
        assert len(stored(owner)) == number - 1
        send(owner, number)
    owner.succeed()
    send(owner, *range(36, 41))
    assert len(stored(owner)) == 40
    send(owner, 35)
    assert stored(owner)[40:] == [35]


def test_appends_wait_in_their_order_until_the_window_is_known(owner: Owner) -> None:
    send(owner, 1, 2)
    owner.succeed()
    waiting = [begin(owner, 2, 3), begin(owner, 3, 4), begin(owner, 1)]
    owner.loop.settle()
    assert waiting == [[], [], []]
    assert len(owner.disk.waiting) == 1
    assert len(owner.partition.delayed) == 3
    finish(owner)
    assert waiting == [[0], [0], [0]]
    assert stored(owner) == [1, 2, 3, 4]


def test_a_window_that_cannot_be_read_back_refuses_what_waits_for_it(owner: Owner) -> None:
    send(owner, 1)
    owner.succeed()
    owner.files.fail("pread", errno.EIO)
    waiting = [begin(owner, 1), begin(owner, 2)]
    finish(owner)
    assert waiting == [[CannotReadFile.status]] * 2
    owner.files.repair()
    send(owner, 1, 2)
    assert stored(owner) == [1, 2]


def test_a_segment_that_is_deleted_meanwhile_is_passed_over(owner: Owner) -> None:
    for number in range(1, 31):
        send(owner, number)
    owner.succeed()
    waiting = begin(owner, 30, 1)
    owner.partition.log.segments.retire_oldest(1, owner.layout.trash, "deleted")
    finish(owner)
    assert waiting == [0]
    numbers = [int(payload) for payload in visible_from(owner, 1)]
    assert numbers[-2:] == [30, 1]


def visible_from(owner: Owner, offset: int) -> list[bytes]:
    written = owner.partition.log.written
    slices = owner.readers.reader(TARGET).read(written, offset, 1 << 20, 1 << 20)
    return [one.payload for one in decode_messages(memoryview(b"".join(slices.views)))]


@pytest.mark.parametrize("purged", [True, False])
def test_a_life_that_ends_answers_what_waits_for_its_window(owner: Owner, purged: bool) -> None:
    send(owner, 1, 2)
    owner.succeed()
    waiting = begin(owner, 1, 3)
    owner.loop.settle()
    owner.partitions.apply_effects(
        Effects(NEW.birth, purged=[RunPurged(0, 0, OLD, NEW)])
        if purged
        else Effects(NEW.birth, removed=[RunRemoved(0, 0, OLD)])
    )
    assert waiting == [0 if purged else PartitionNotFound.status]
    finish(owner)
    # The new life knows nothing of the old one.
    fresh = Statuses()
    renewed = TARGET._replace(birth=NEW.birth)
    owner.appends.append(renewed, batch_of(1, 1, 2), 3, False, fresh.done)
    finish(owner)
    assert fresh == [0]
    assert (owner.published.birth, owner.published.next_offset) == (NEW.birth, 2)


def test_messages_staged_without_a_window_are_known_to_the_next_one(owner: Owner) -> None:
    send(owner, 1)
    staged = begin(owner, 2)
    owner.partition.window = None
    repeated = begin(owner, 2, 3)
    finish(owner)
    assert (staged, repeated) == ([0], [0])
    assert stored(owner) == [1, 2, 3]


def test_idle_windows_give_their_memory_back(owner: Owner) -> None:
    assert owner.deduplication is not None
    send(owner, *range(1, 500))
    owner.deduplication.keep_trimmed(owner.partitions)
    window = owner.partition.window
    assert window is not None
    assert len(window.seen) == 499
    owner.now_us += WINDOW[1]
    owner.loop.advance(31)
    assert len(window.seen) == 0
    send(owner, 1)
    assert owner.partition.window is window


def test_mode_buffered_drops_duplicates_of_its_journal(new_owner: NewOwner) -> None:
    owner = new_owner(Durability.BUFFERED)
    send(owner, 1, 2)
    send(owner, 2, 3)
    assert owner.partition.log.staged_messages == 3
    assert stored(owner) == [1, 2, 3]
    owner.succeed()
    send(owner, 3, 4)
    assert stored(owner) == [1, 2, 3, 4]


# A batch that is shown again to the successor of an owner that died.


@pytest.mark.parametrize("encryption", [None, ENCRYPTION], ids=["plain", "encrypted"])
@pytest.mark.parametrize("durability", [Durability.WRITTEN, Durability.FSYNC])
def test_a_batch_stored_by_the_dead_owner_is_acknowledged_and_not_stored_again(
    new_owner: NewOwner, durability: Durability, encryption: Encryption | None
) -> None:
    owner = new_owner(durability, WINDOW, encryption)
    send(owner, 1)
    batch = batch_of(2, 1, 3, 3)
    owner.append(batch, 4, Statuses())
    finish(owner)
    owner.succeed()
    submit_again(owner, batch, 4)
    assert stored(owner) == [1, 2, 3]


@pytest.mark.parametrize("written", range(5))
@pytest.mark.parametrize("torn_bytes", [0, 1, 64])
@pytest.mark.parametrize(
    ("window", "ids"),
    [
        (WINDOW, (1, 20, 0, 1, 30, 20, 0)),
        (WINDOW, (20, 0, 30, 0)),
        ((1, 0), (20, 0, 1, 30, 0)),
        ((1, 0), (1, 1, 20, 0, 30, 0)),
        ((1000, 1), (1, 20, 0, 1, 30, 0)),
    ],
)
def test_what_a_torn_write_left_out_is_stored_once(
    new_owner: NewOwner,
    window: tuple[int, int],
    written: int,
    torn_bytes: int,
    ids: tuple[int, ...],
) -> None:
    """Four messages of each batch are new; so many of them had reached the file.

    Windows that would not know them any more, neither by number nor by time, change nothing:
    they are recognised by what is stamped on them.
    """
    owner = new_owner(Durability.WRITTEN, WINDOW)
    send(owner, 1)
    start = owner.log_file.stat().st_size
    board = owner.published
    batch = batch_of(*ids)
    owner.append(batch, len(ids), Statuses())
    finish(owner)
    assert sorted(stored(owner)[1:]) == [0, 0, 20, 30]
    order = stored(owner)
    content = memoryview(owner.log_file.read_bytes())[start:]
    cut = min(message_start(content, written) + torn_bytes, len(content))
    with owner.log_file.open("r+b") as file:
        file.truncate(start + cut)
    owner.board.publish(TARGET.slot, board)
    owner.window = window
    owner.succeed()
    owner.now_us += 1
    submit_again(owner, batch, len(ids))
    found = stored(owner)
    if window == WINDOW:
        assert found == order
    else:
        # Its duplicate of 1 may be new by now, which is what such a window means.
        assert [one for one in found if one != 1] == order[1:]


def test_what_a_dead_owner_dropped_between_stored_messages_stays_dropped(
    new_owner: NewOwner,
) -> None:
    """Its original has left the window since, pushed out by the rest of the same batch."""
    owner = new_owner(Durability.WRITTEN, (3, 0))
    batch = batch_of(1, 2, 3, 1, 4)
    owner.append(batch, 5, Statuses())
    finish(owner)
    owner.succeed()
    submit_again(owner, batch, 5)
    assert stored(owner) == [1, 2, 3, 4]


@pytest.mark.parametrize("durability", list(Durability))
def test_a_batch_that_was_stamped_but_not_written_is_stored(
    new_owner: NewOwner, durability: Durability
) -> None:
    owner = new_owner(durability)
    send(owner, *range(1, JOURNAL_MESSAGES_MAX + 1))
    finish(owner)
    batch = batch_of(1, 0, 20)
    owner.append(batch, 3, Statuses())
    assert first_stamped_offset(batch) == JOURNAL_MESSAGES_MAX
    owner.succeed()
    other = begin(owner, 99, 98, 97)
    finish(owner)
    assert other == [0]
    submit_again(owner, batch, 3)
    assert stored(owner)[JOURNAL_MESSAGES_MAX:] == [99, 98, 97, 0, 20]
    assert first_stamped_offset(batch) == JOURNAL_MESSAGES_MAX + 3


def test_a_batch_is_stored_once_through_two_deaths(owner: Owner) -> None:
    send(owner, 1)
    batch = batch_of(1, 0, 2, 0)
    owner.append(batch, 4, Statuses())
    finish(owner)
    owner.succeed()
    owner.append(batch, 4, Statuses(), resubmitted=True)
    owner.succeed()
    send(owner, 50)
    submit_again(owner, batch, 4)
    assert stored(owner) == [1, 0, 2, 0, 50]


def test_another_clients_message_with_the_same_id_makes_ours_a_duplicate(owner: Owner) -> None:
    batch = batch_of(1, 2)
    owner.append(batch, 2, Statuses())
    owner.succeed()  # before the turn ended
    send(owner, 2)
    submit_again(owner, batch, 2)
    assert stored(owner) == [2, 1]


def test_a_batch_refused_by_one_life_can_be_sent_to_the_next(owner: Owner) -> None:
    """The session clears the first checksum and tries again: the batch must be what it was."""
    send(owner, 1)
    batch = batch_of(1, 2, 1, 3)
    owner.append(batch, 4, Statuses())
    owner.partitions.apply_effects(Effects(NEW.birth, removed=[RunRemoved(0, 0, OLD)]))
    finish(owner)
    clear_first_checksum(batch)
    again = Statuses()
    renewed = TARGET._replace(birth=NEW.birth)
    owner.appends.append(renewed, batch, 4, False, again.done)
    finish(owner)
    assert again == [0]
    written = owner.partitions.find(renewed).log.written
    slices = owner.readers.reader(renewed).read(written, 0, 100, 1 << 20)
    found = decode_messages(memoryview(b"".join(slices.views)))
    assert [one.payload for one in found] == [b"1", b"2", b"3"]


# Against a model: everything at once.

steps = st.lists(
    st.tuples(
        st.sampled_from(["send", "send", "send", "fail", "die", "die in hand", "wait"]),
        st.lists(st.integers(0, 9), min_size=1, max_size=6),
        st.integers(0, 50),
    ),
    max_size=14,
)


@pytest.mark.no_cover
@pytest.mark.slow
@settings(max_examples=60)
@given(steps, st.sampled_from([(3, 0), (5, 80), (100, 0), (100, 60)]))
def test_the_model(
    tmp_path_factory: pytest.TempPathFactory,
    steps: list[tuple[str, list[int], int]],
    window: tuple[int, int],
) -> None:
    owner = Owner(
        tmp_path_factory.mktemp("owner"), Durability.WRITTEN, segment_size_max=512, window=window
    )
    entries_max, expiry_us = window
    log: list[tuple[int, int]] = []

    def expected(ids: list[int]) -> None:
        for id in ids:
            known = [
                other
                for other, at in log[-entries_max:]
                if not expiry_us or owner.now_us - at < expiry_us
            ]
            if id == 0 or id not in known:
                log.append((id, owner.now_us))

    try:
        send(owner, 77)  # so that there are files to recover
        expected([77])
        for step, ids, passed in steps:
            owner.now_us += passed
            if step == "die":
                owner.succeed()
            elif step == "send":
                send(owner, *ids)
                expected(ids)
            elif step == "fail":
                before = list(log)
                expected(ids)
                is_new = log != before
                log[:] = before
                finish(owner)
                owner.files.fail("write", errno.ENOSPC)
                statuses = begin(owner, *ids)
                finish(owner)
                owner.files.repair()
                assert statuses == [CannotSaveMessagesToSegment.status if is_new else 0]
            elif step == "die in hand":
                batch = batch_of(*ids)
                owner.append(batch, len(ids), Statuses())
                if passed % 2:
                    finish(owner)
                owner.succeed()
                submit_again(owner, batch, len(ids))
                expected(ids)
            assert stored(owner) == [id for id, _ in log]
    finally:
        owner.close()
