"""The read port without a session: what a poll returns, how often it reads, what it commits."""

import errno
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from borzoi.protocol.errors import (
    CannotReadFile,
    CannotReadMessage,
    InvalidMessageChecksum,
    PartitionNotFound,
)
from borzoi.protocol.identifiers import ConsumerKind, StrategyKind
from borzoi.protocol.index_entry import INDEX_ENTRY_SIZE
from borzoi.protocol.message import decode_messages
from borzoi.router.placement import shard_of
from borzoi.router.target import Target
from borzoi.shards.partitions.durability import Durability
from borzoi.shards.partitions.owned import Partitions
from borzoi.shards.ports.reads import Reads
from borzoi.shards.ports.requests import ResolvePoll
from borzoi.shards.reading.readers import HEALS_MAX, PartitionReaders
from borzoi.shards.reading.warm_reads import WarmReads
from borzoi.shards.rings.poll import Poll
from borzoi.shards.rings.requests import Done, Request
from borzoi.storage.birth import write_birth
from borzoi.storage.copy_memory import CopyMemory
from borzoi.storage.encrypted import Encryption, Opened, SegmentCipher
from borzoi.storage.hot_range import HotRange
from borzoi.storage.mapped import WindowCache
from borzoi.storage.outcome import Slices
from borzoi.storage.plain_blocks import PlainBlocks
from borzoi.storage.reader import PartitionReader
from borzoi.storage.segment_list import RECENT_SIZE
from tests.shards.owner import COPIED_SIZE_MAX, RESPONSE_SIZE_MAX, TARGET, Owner
from tests.shards.reading.test_warm_reads import evict, run_disk
from tests.storage.ciphers import KEY

FIVE = [b"0", b"1", b"2", b"3", b"4"]
CONSUMER = 7
USER = 3
SHARDS = 2
LARGE = b"x" * 100_000  # decrypted by a thread, if encrypted


class Answer(NamedTuple):
    """What a poll was answered with."""

    status: int
    current: int
    payloads: list[bytes]


def poll_of(
    strategy: StrategyKind, value: int = 0, count: int = 10, *, commit: bool = False
) -> Poll:
    return Poll(strategy, value, count, ConsumerKind.CONSUMER, CONSUMER, commit, USER)


NEXT_TWO = poll_of(StrategyKind.NEXT, count=2, commit=True)


def ask(reads: Reads, poll: Poll, owner: Owner, target: Target = TARGET) -> Answer:
    answers: list[tuple[int, int, Slices | None]] = []
    reads.poll(target, poll, lambda *answer: answers.append(answer))
    owner.loop.settle()
    while owner.disk.waiting:
        run_disk(owner)
        owner.loop.settle()
    ((status, current, slices),) = answers
    data = b"" if slices is None else b"".join(slices.views)
    found = list(decode_messages(memoryview(data)))
    if slices is not None:
        offsets = [slices.first_offset + number for number in range(slices.message_count)]
        assert [one.offset for one in found] == offsets
    return Answer(status, current, [one.payload for one in found])


NewOwner = Callable[..., Owner]


@pytest.fixture
def new_owner(tmp_path: Path) -> Iterator[NewOwner]:
    made: list[Owner] = []

    def new(
        payloads: list[bytes] = FIVE,
        durability: Durability = Durability.WRITTEN,
        *,
        encrypted: bool = False,
        recent_size: int = RECENT_SIZE,
    ) -> Owner:
        encryption = Encryption(KEY, encrypts=True) if encrypted else None
        owner = Owner(tmp_path, durability, encryption=encryption, recent_size=recent_size)
        made.append(owner)
        # One by one: each is encrypted alone, so that damage hits the one that is meant.
        for payload in payloads:
            owner.send(payload)
        owner.loop.settle()
        return owner

    yield new
    for owner in made:
        owner.close()


@pytest.fixture
def decryptions(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many messages each decryption was asked for."""
    counts: list[int] = []
    decrypt = SegmentCipher.decrypt

    def counted(
        cipher: SegmentCipher,
        stored: memoryview,
        first: int,
        skipped: int,
        count: int,
        plain: memoryview,
    ) -> Opened:
        counts.append(count)
        return decrypt(cipher, stored, first, skipped, count, plain)

    monkeypatch.setattr(SegmentCipher, "decrypt", counted)
    return counts


def reader_of(owner: Owner) -> PartitionReader:
    return owner.readers.reader(TARGET)


# At the owner.


@pytest.mark.parametrize("durability", list(Durability))
@pytest.mark.parametrize(
    ("poll", "payloads"),
    [
        (poll_of(StrategyKind.OFFSET, 3), FIVE[3:]),
        (poll_of(StrategyKind.OFFSET, 5), []),
        (poll_of(StrategyKind.FIRST, count=2), FIVE[:2]),
        (poll_of(StrategyKind.LAST, count=2), FIVE[3:]),
        (poll_of(StrategyKind.TIMESTAMP, 0, 1), FIVE[:1]),
        (poll_of(StrategyKind.TIMESTAMP, 1 << 62), []),
        (poll_of(StrategyKind.NEXT), FIVE),
        (poll_of(StrategyKind.NEXT, count=0, commit=True), []),
    ],
)
def test_every_strategy_answers_a_caller_that_has_no_session(
    new_owner: NewOwner, durability: Durability, poll: Poll, payloads: list[bytes]
) -> None:
    owner = new_owner(durability=durability)
    run_disk(owner)
    owner.loop.settle()
    assert ask(owner.reads, poll, owner) == (0, 4, payloads)


def test_a_committed_poll_is_on_file_before_it_is_answered(new_owner: NewOwner) -> None:
    owner = new_owner()
    file = Path(owner.directory, "offsets", "consumers", str(CONSUMER))
    answered: list[bytes] = []
    owner.reads.poll(TARGET, NEXT_TWO, lambda *_answer: answered.append(file.read_bytes()))
    assert answered == [(1).to_bytes(8, "little")]
    assert ask(owner.reads, NEXT_TWO, owner).payloads == FIVE[2:4]
    assert ask(owner.reads, NEXT_TWO, owner).payloads == FIVE[4:]
    assert ask(owner.reads, NEXT_TWO, owner) == (0, 4, [])


@pytest.mark.parametrize("durability", [Durability.WRITTEN, Durability.BUFFERED])
def test_a_poll_reads_once(new_owner: NewOwner, durability: Durability) -> None:
    owner = new_owner(durability=durability)
    for reads, expected in enumerate((FIVE[:2], FIVE[2:4], FIVE[4:]), start=1):
        assert ask(owner.reads, NEXT_TWO, owner).payloads == expected
        assert reader_of(owner).reads_count == reads


@pytest.mark.parametrize("payload", [b"small", LARGE])
def test_a_poll_decrypts_once(new_owner: NewOwner, payload: bytes, decryptions: list[int]) -> None:
    owner = new_owner([payload] * 3, encrypted=True)
    assert ask(owner.reads, NEXT_TWO, owner).payloads == [payload] * 2
    assert decryptions == [2]
    assert ask(owner.reads, NEXT_TWO, owner).payloads == [payload]
    assert decryptions == [2, 1]


def test_an_index_is_checked_a_bounded_number_of_times(new_owner: NewOwner) -> None:
    """The owner answers at once, and the message stays damaged."""
    owner = new_owner()
    distrust(owner)
    damage_last_byte(owner)
    checks: list[int] = []

    def check(_target: Target, segment: int, done: Done) -> None:
        checks.append(segment)
        done(0, 0, 0, 0)

    owner.readers.ask_owner = check
    answer = ask(owner.reads, poll_of(StrategyKind.OFFSET, 4), owner)
    assert answer.status == InvalidMessageChecksum.status
    assert checks == [0] * HEALS_MAX


def test_a_life_that_is_over_is_not_found(new_owner: NewOwner) -> None:
    owner = new_owner()
    older = TARGET._replace(birth=TARGET.birth - 1)
    assert ask(owner.reads, NEXT_TWO, owner, older).status == PartitionNotFound.status


# What the owner decides for another shard.


def distrust(owner: Owner) -> None:
    """As after a clean stop: this run has neither written nor verified what is there."""
    published = owner.published
    owner.commit.publish(owner.partition, published._replace(trusted_from=published.next_offset))


def damage_last_byte(owner: Owner) -> None:
    with owner.log_file.open("r+b") as file:
        file.seek(-1, 2)
        last = file.read(1)[0]
        file.seek(-1, 2)
        file.write(bytes([last ^ 0xFF]))


def measured(owner: Owner, poll: Poll) -> tuple[int, int, int, int]:
    answers: list[tuple[int, int, int, int]] = []

    def done(status: int, first: int = 0, second: int = 0, third: int = 0) -> None:
        answers.append((status, first, second, third))

    owner.reads.resolve(TARGET, poll, done)
    owner.loop.settle()
    while owner.disk.waiting:
        run_disk(owner)
        owner.loop.settle()
    (answer,) = answers
    return answer


@pytest.mark.parametrize("encrypted", [False, True])
def test_the_owner_measures_what_it_wrote_without_its_bytes(
    new_owner: NewOwner, encrypted: bool, decryptions: list[int]
) -> None:
    owner = new_owner([LARGE] * 5, encrypted=encrypted, recent_size=0)
    evict(owner.log_file)
    if not encrypted:
        assert measured(owner, NEXT_TWO) == (0, 0, 2, 4)
        assert measured(owner, NEXT_TWO) == (0, 2, 2, 4)
    assert measured(owner, poll_of(StrategyKind.NEXT, count=1)) == (0, 0 if encrypted else 4, 1, 4)
    assert measured(owner, poll_of(StrategyKind.OFFSET, 1)) == (0, 1, 4, 4)
    assert (reader_of(owner).reads_count, decryptions) == (0, [])


def test_the_owner_decrypts_what_it_commits(new_owner: NewOwner, decryptions: list[int]) -> None:
    """Bytes that rot while the broker runs: what was committed and is not sent would be skipped."""
    owner = new_owner(encrypted=True)
    damage_last_byte(owner)
    assert measured(owner, poll_of(StrategyKind.NEXT, commit=True)) == (0, 0, 4, 4)
    assert owner.partition.offsets.get(ConsumerKind.CONSUMER, CONSUMER) == 3
    assert decryptions == [5]


@pytest.mark.parametrize("encrypted", [False, True])
def test_the_owner_reads_what_an_earlier_run_wrote_before_it_commits_it(
    new_owner: NewOwner, encrypted: bool
) -> None:
    owner = new_owner(encrypted=encrypted)
    distrust(owner)
    damage_last_byte(owner)
    assert measured(owner, poll_of(StrategyKind.NEXT, commit=True)) == (0, 0, 4, 4)
    assert reader_of(owner).reads_count == 1


def test_a_segment_that_is_gone_is_an_error_and_no_death(new_owner: NewOwner) -> None:
    owner = new_owner()
    owner.log_file.unlink()
    owner.log_file.with_suffix(".index").unlink()
    assert measured(owner, NEXT_TWO) == (CannotReadMessage.status, 0, 0, 4)
    assert owner.partition.offsets.get(ConsumerKind.CONSUMER, CONSUMER) is None


def test_a_wrong_entry_of_the_index_commits_no_more_than_a_read_returns(
    new_owner: NewOwner,
) -> None:
    owner = new_owner()
    with owner.log_file.with_suffix(".index").open("r+b") as index:
        index.seek(3 * INDEX_ENTRY_SIZE + 4)
        index.write((1 << 20).to_bytes(4, "little"))
    poll = poll_of(StrategyKind.NEXT, count=4, commit=True)
    assert measured(owner, poll) == (0, 0, 1, 4)
    assert owner.partition.offsets.get(ConsumerKind.CONSUMER, CONSUMER) == 0


# Of a partition that another shard owns.


class OtherOwner:
    """A peer that owns the partition and answers at once."""

    def __init__(self, owner: Owner) -> None:
        self._owner = owner
        self.before_answer: Callable[[], None] = lambda: None
        self.asked = 0

    def ask(self, shard: int, request: Request, done: Done) -> None:
        assert isinstance(request, ResolvePoll)
        assert shard == shard_of(TARGET.namespace, SHARDS)
        self.asked += 1
        answer = measured(self._owner, request.poll)
        self.before_answer()
        done(*answer)


class Asking:
    """A shard that owns nothing, over the board and the files of an owner."""

    def __init__(self, owner: Owner, copied_size_max: int = COPIED_SIZE_MAX) -> None:
        self._other = owner
        self.peer = OtherOwner(owner)
        memory = CopyMemory(copied_size_max)
        self.readers = PartitionReaders(
            owner.board,
            owner.layout,
            WindowCache(16),
            owner.files,
            False,
            PlainBlocks(memory),
            encryption=owner.encryption,
        )
        empty = Partitions(
            owner.layout,
            owner.files,
            owner.open_files,
            owner.settings,
            owner.durability,
            owner.commit,
            consumers_max=1,
            share_weight=1,
        )
        self.reads = Reads(
            1 - shard_of(TARGET.namespace, SHARDS),
            SHARDS,
            empty,
            owner.commit,
            self.readers,
            WarmReads(owner.loop.as_loop, owner.disk, owner.files, memory),
            self.peer,
            owner.durability,
            RESPONSE_SIZE_MAX,
        )

    def ask(self, poll: Poll) -> Answer:
        return ask(self.reads, poll, self._other)

    @property
    def reads_count(self) -> int:
        return self.readers.reader(TARGET).reads_count


def test_another_shard_reads_from_the_board_what_needs_no_owner(new_owner: NewOwner) -> None:
    asking = Asking(new_owner())
    assert asking.ask(poll_of(StrategyKind.OFFSET, 1, 2)) == (0, 4, FIVE[1:3])
    assert asking.ask(poll_of(StrategyKind.LAST, count=1)) == (0, 4, FIVE[4:])
    assert asking.peer.asked == 0


@pytest.mark.parametrize("encrypted", [False, True])
def test_another_shard_reads_once_what_the_owner_has_committed(
    new_owner: NewOwner, encrypted: bool, decryptions: list[int]
) -> None:
    owner = new_owner(encrypted=encrypted)
    asking = Asking(owner)
    for reads, expected in enumerate((FIVE[:2], FIVE[2:4], FIVE[4:]), start=1):
        assert asking.ask(NEXT_TWO) == (0, 4, expected)
        assert (asking.peer.asked, asking.reads_count) == (reads, reads)
    assert asking.ask(NEXT_TWO) == (0, 4, [])
    # The owner reads before it commits what may prove damaged, and nothing else.
    assert reader_of(owner).reads_count == (3 if encrypted else 0)
    assert decryptions == ([2, 2, 2, 2, 1, 1] if encrypted else [])


def test_a_committed_poll_sends_more_than_one_read_may_copy(
    new_owner: NewOwner, decryptions: list[int]
) -> None:
    owner = new_owner([LARGE] * 4, encrypted=True)
    asking = Asking(owner, copied_size_max=2 * len(LARGE))
    everything = poll_of(StrategyKind.NEXT, commit=True)
    assert asking.ask(everything._replace(auto_commit=False)).payloads == [LARGE] * 4
    assert asking.ask(everything).payloads == [LARGE] * 4
    assert len(asking.ask(poll_of(StrategyKind.OFFSET)).payloads) == 1
    assert decryptions == [4, 4, 4, 1]


def test_what_was_committed_and_cannot_be_sent_is_an_error(new_owner: NewOwner) -> None:
    """Bytes that rot behind the commit: a shorter answer would skip messages silently."""
    owner = new_owner(encrypted=True)
    asking = Asking(owner)
    asking.peer.before_answer = lambda: damage_last_byte(owner)
    everything = poll_of(StrategyKind.NEXT, commit=True)
    assert asking.ask(everything).status == CannotReadMessage.status


def test_what_rots_while_the_broker_runs_is_not_skipped(new_owner: NewOwner) -> None:
    owner = new_owner(encrypted=True)
    asking = Asking(owner)
    damage_last_byte(owner)
    everything = poll_of(StrategyKind.NEXT, commit=True)
    assert asking.ask(everything._replace(auto_commit=False)) == (0, 4, FIVE[:4])
    assert asking.ask(everything) == (0, 4, FIVE[:4])
    assert asking.ask(everything).status == InvalidMessageChecksum.status


def test_a_purge_between_decision_and_read_is_not_found(new_owner: NewOwner) -> None:
    owner = new_owner()
    asking = Asking(owner)
    asking.peer.before_answer = owner.forget_board
    assert asking.ask(NEXT_TWO).status == PartitionNotFound.status


def test_a_purge_that_the_board_does_not_show_yet_leaves_nothing_to_return(
    new_owner: NewOwner,
) -> None:
    """The files of the old life are gone already. No message was lost that could be sent."""
    owner = new_owner()
    asking = Asking(owner)

    def purge() -> None:
        owner.log_file.unlink()
        owner.log_file.with_suffix(".index").unlink()
        write_birth(owner.directory, TARGET.birth + 1, owner.files)

    asking.peer.before_answer = purge
    assert asking.ask(NEXT_TWO) == (0, 4, [])


@pytest.mark.parametrize("call", ["open to read", "pread", "listdir"])
@pytest.mark.parametrize("strategy", [StrategyKind.OFFSET, StrategyKind.TIMESTAMP])
@pytest.mark.parametrize("commit", [False, True])
def test_a_read_that_the_kernel_refuses_is_answered_and_logged(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    call: str,
    strategy: StrategyKind,
    commit: bool,
) -> None:
    owner = Owner(tmp_path, Durability.WRITTEN)
    owner.send(*FIVE)
    owner.loop.settle()
    poll = poll_of(strategy, commit=commit)
    owner.files.fail(call, errno.EMFILE)
    for _ in range(2):
        assert ask(owner.reads, poll, owner).status == CannotReadFile.status
    owner.files.repair()
    assert owner.partition.offsets.get(ConsumerKind.CONSUMER, CONSUMER) is None
    (line,) = [one.getMessage() for one in caplog.records]
    assert f"partition {TARGET} cannot be read" in line
    assert "Too many open files" in line
    assert ask(owner.reads, poll, owner).payloads == FIVE
    owner.close()


def test_a_warm_read_that_the_kernel_refuses_takes_the_longer_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = Owner(tmp_path, Durability.WRITTEN)
    owner.send(*FIVE)
    owner.loop.settle()
    first = poll_of(StrategyKind.OFFSET, 0, 1)
    assert ask(owner.reads, first, owner).payloads == FIVE[:1]

    def refused(_self: HotRange, _start: int, _end: int, _end_position: int) -> bool:
        raise OSError(errno.EAGAIN, "mincore")

    monkeypatch.setattr(HotRange, "is_warm", refused)
    second = poll_of(StrategyKind.OFFSET, 1, 1)
    assert ask(owner.reads, second, owner).payloads == FIVE[1:2]
    owner.close()
