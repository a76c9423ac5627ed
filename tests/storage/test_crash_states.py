"""Crash at every call of a run that appends, rolls, syncs, deletes and purges."""

import shutil
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

from borzoi.protocol.errors import InvalidMessageChecksum
from borzoi.storage.birth import read_birth
from borzoi.storage.files import Files
from tests.storage.crash_states import Crash, Disk, RecordingFiles, after_every_crash
from tests.storage.partitions import BIRTH, Partition, begin_next_life, retire


@dataclass
class Promise:
    """What holds from a call on: this life, so many messages written, so many synced.

    Messages before `first` may be deleted.
    """

    call: int
    birth: int
    written: int
    synced: int
    first: int = 0


class Run:
    """A partition whose every call is recorded together with what was promised when."""

    def __init__(self, root: Path) -> None:
        self.files = RecordingFiles()
        self.partition = Partition(root, segment_size_max=150, files=self.files)
        self.lives: dict[int, list[bytes]] = {BIRTH: []}
        self.first_offset = 0
        self.promises = [Promise(0, BIRTH, 0, 0)]

    def promise(
        self, *, birth: int = 0, written: int = -1, synced: int = -1, first: int = -1
    ) -> None:
        last = self.promises[-1]
        self.promises.append(
            Promise(
                len(self.files.calls),
                birth or last.birth,
                last.written if written < 0 else written,
                last.synced if synced < 0 else synced,
                last.first if first < 0 else first,
            )
        )

    def append(self, *batches: int) -> None:
        birth = self.promises[-1].birth
        life = self.lives[birth]
        for count in batches:
            payloads = [b"%d/%d" % (birth, len(life) + number) for number in range(count)]
            life += payloads
            self.partition.stage(*payloads)
        self.partition.log.write()
        self.promise(written=len(life))

    def sync(self, *, save: bool = False) -> None:
        self.partition.log.sync()
        self.promise(synced=self.promises[-1].written)
        if save:
            self.partition.log.save_recovery_point()

    def delete(self, count: int) -> None:
        """The segments must be synced."""
        log = self.partition.log
        after = log.segments.without_oldest(log.written, count)
        self.promise(first=after.first_offset)
        self.partition.delete_oldest(count)

    def purge(self) -> None:
        birth = self.promises[-1].birth + 1
        self.lives[birth] = []
        # The metadata log knows of the purge before the files do.
        self.promise(birth=birth, written=0, synced=0)
        begin_next_life(self.partition, birth)

    def retired_after(self) -> int:
        """How many calls had been made when the old life had left its place."""
        renames = [
            number
            for number, call in enumerate(self.files.calls, 1)
            if call.name == "rename" and call.path == self.partition.directory
        ]
        assert len(renames) == 1
        return renames[0]

    def promised_at(self, call: int) -> Promise:
        return [promise for promise in self.promises if promise.call <= call][-1]


def recorded_run(root: Path) -> Run:
    run = Run(root)
    run.append(2)
    run.sync()
    run.append(1, 1, 2, 1)  # a group over several segments
    run.sync(save=True)
    run.append(1)
    run.append(2, 2)
    run.sync()
    run.append(1)
    run.purge()
    run.append(1, 1)
    run.sync(save=True)
    run.append(3, 1)
    run.sync()
    return run


def messages_in(partition: Partition) -> dict[int, bytes]:
    found = {}
    published = partition.log.written
    for offset in range(published.first_offset, published.next_offset):
        try:
            slices = partition.read_slices(offset, 1, 1 << 20)
        except InvalidMessageChecksum:
            continue
        if slices.message_count and slices.first_offset == offset:
            found[offset] = b"".join(slices.views)[64:]
    return found


def check(run: Run, root: Path, promise: Promise, *, killed: bool) -> int | None:
    """Start on what the crash left; the birth that was found."""
    partition = Partition(root, segment_size_max=150)
    partition.birth = promise.birth
    birth = read_birth(partition.directory, Files())
    if birth != promise.birth:
        # What a start does with a directory that is not of the life that the metadata knows.
        retire(partition)
    report = partition.reopen()
    found = messages_in(partition)
    life = run.lives[promise.birth]
    assert found == {offset: life[offset] for offset in found}, "not what was appended there"
    kept = promise.written if killed else promise.synced
    assert set(range(promise.first, kept)) <= found.keys(), "an acknowledged message is gone"
    if found and found.keys() != set(range(min(found), min(found) + len(found))):
        assert not killed
        assert any("LOST" in line for line in report), "a gap without a report"
    next_offset = partition.append(b"next")
    assert next_offset >= max([kept, *(offset + 1 for offset in found)])
    assert messages_in(partition) == {**found, next_offset: b"next"}
    partition.open_files.close()
    return birth


@pytest.mark.no_cover
def test_every_moment_of_a_deletion_can_be_recovered(tmp_path: Path) -> None:
    """Segment by segment, until nothing is left but an empty one."""
    (tmp_path / "run").mkdir()
    run = Run(tmp_path / "run")
    run.append(1, 1, 1, 1)
    run.append(2, 2, 1)
    run.append(1)
    run.partition.log.roll()
    run.sync()
    begun_at = len(run.files.calls)
    sealed = len(run.partition.log.sealed)
    assert sealed == 3
    run.delete(1)
    run.delete(sealed - 1)
    written = run.partition.log.written
    assert written.first_offset == written.next_offset == 10

    def look(crash: Crash) -> None:
        promised = run.promised_at(crash.number)
        check(run, crash.target, promised, killed=crash.state == "killed")

    firsts = after_every_crash(tmp_path / "run", run.files.calls, begun_at, look)
    assert min(firsts.values()) == len(run.files.calls) - begun_at + 1


@pytest.mark.no_cover
@pytest.mark.slow
def test_every_moment_of_a_run_can_be_recovered(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    run = recorded_run(tmp_path / "run")
    disk = Disk(str(tmp_path / "run"))
    retired_after = run.retired_after()
    births_found: Counter[int | None] = Counter()  # once the purge had renamed the old life
    states = 0
    for number, call in enumerate([None, *run.files.calls]):
        if call is not None:
            disk.apply(call)
        for state in disk.survivors(number):
            target = tmp_path / f"{number}-{state.name}"
            disk.materialise(state, target)
            try:
                birth = check(run, target, run.promised_at(number), killed=state.name == "killed")
            except Exception as error:
                error.add_note(f"crash after call {number} ({call}), {state.name}")
                raise
            if number >= retired_after:
                births_found[birth] += 1
            shutil.rmtree(target)
            states += 1
    assert states > 500
    # The rename lost; kept, with nothing in its place yet; kept, and the new life found.
    assert births_found.keys() == {BIRTH, None, BIRTH + 1}
    assert min(births_found.values()) > 10
