"""The log against a Python list: random appends, rolls, syncs, compressions, crashes and reads.

The list is what the log must hold. After a crash the end may be missing, but only what was not
acknowledged, or was torn on purpose; what is left is always a beginning of the list.
"""

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from borzoi.storage.birth import read_birth
from borzoi.storage.codecs import Codec
from borzoi.storage.layout import COMPRESSED
from tests.storage.partitions import ALL, BIRTH, NOW_US, Partition, begin_next_life, payloads_in

PAYLOADS = st.lists(st.binary(max_size=90), min_size=1, max_size=4)


class LogMachine(RuleBasedStateMachine):
    """One partition and its model."""

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp(prefix="borzoi-log-"))

    def teardown(self) -> None:
        self.partition.open_files.close()
        shutil.rmtree(self.root)

    @initialize(segment_size_max=st.sampled_from([1, 100, 300, 1000]))
    def begin(self, segment_size_max: int) -> None:
        self.partition = Partition(self.root, segment_size_max=segment_size_max, open_files_max=3)
        self.first = 0  # oldest offset left; model[n] is the message at offset n
        self.model: list[tuple[bytes, int]] = []
        self.staged: list[tuple[bytes, int]] = []
        self.durable = 0  # offsets below this are covered by the recovery point
        self.birth = BIRTH
        self.first_found = self.started_at = 0  # what there was when the process started

    def last_timestamp(self) -> int:
        """Of the messages this process wrote or found. Deleted ones it never saw do not count."""
        known = self.model + self.staged
        seen = known if len(known) > self.started_at else known[self.first_found :]
        return seen[-1][1] if seen else 0

    @rule(payloads=PAYLOADS, clock=st.integers(-1000, 1000))
    def stage(self, payloads: list[bytes], clock: int) -> None:
        self.partition.now_us = NOW_US + clock
        timestamp = max(NOW_US + clock, self.last_timestamp())
        assert self.partition.stage(*payloads) == len(self.model + self.staged)
        self.staged += [(payload, timestamp) for payload in payloads]

    @rule()
    def write(self) -> None:
        self.partition.log.write()
        self.model += self.staged
        self.staged = []

    @rule()
    def roll(self) -> None:
        self.write()
        self.partition.log.roll()

    @rule(save=st.booleans())
    def sync(self, save: bool) -> None:
        self.partition.log.sync()
        if save:
            self.partition.log.save_recovery_point()
            self.durable = len(self.model)

    @rule(count=st.integers(1, 3))
    def delete_oldest(self, count: int) -> None:
        self.partition.delete_oldest(count)
        self.first = self.partition.log.written.first_offset

    @rule(codec=st.sampled_from(COMPRESSED), tell=st.booleans())
    def compress(self, codec: Codec, tell: bool) -> None:
        """Readers learn of it at once, or when they look for the plain files in vain."""
        self.write()
        self.partition.compress(codec)
        if tell:
            for segment in self.partition.log.sealed:
                self.partition.reader.replaced(segment.first_offset)

    @rule()
    def purge(self) -> None:
        self.birth += 1
        begin_next_life(self.partition, self.birth)
        self.model, self.staged, self.first, self.durable = [], [], 0, 0
        self.first_found = self.started_at = 0

    @rule(torn=st.integers(0, 200), lose_index=st.booleans())
    def crash(self, torn: int, lose_index: bool) -> None:
        """The process dies with what it had staged; perhaps the end of the log is torn."""
        self.staged = []
        active = self.partition.log.written
        log_file = self.partition.log_file(active.active_segment)
        if log_file.exists():
            log = log_file.read_bytes()
            durable_size = self.size_of_messages(active.active_segment, self.durable)
            left = max(durable_size, len(log) - torn)
            log_file.write_bytes(log[:left])
            while self.size_of_messages(active.active_segment, len(self.model)) > left:
                self.model.pop()
            if lose_index:
                self.partition.index_file(active.active_segment).unlink()
            assert read_birth(self.partition.directory, self.partition.files) == self.birth
        self.partition.reopen()
        self.first_found, self.started_at = self.first, len(self.model)

    @rule()
    def stop_cleanly(self) -> None:
        self.write()
        self.partition.log.sync()
        clean = self.partition.log.clean_partition(0)
        assert self.partition.reopen(clean) == []
        assert self.partition.log.recovery.scanned_bytes == 0
        self.first_found, self.started_at = self.first, len(self.model)

    @rule(data=st.data(), bytes_max=st.integers(0, 2000))
    def read(self, data: st.DataObject, bytes_max: int) -> None:
        start = data.draw(st.integers(0, len(self.model) + 2))
        count = data.draw(st.integers(0, 8))
        slices = self.partition.reader.read(self.partition.log.written, start, count, bytes_max)
        found = payloads_in(slices)
        start = max(start, self.first)
        expected = [payload for payload, _ in self.model[start : start + count]]
        assert found == expected[: len(found)]
        if expected:
            assert slices.first_offset == start
            assert len(found) >= 1
            more = expected[: len(found) + 1]
            if len(found) < len(expected):
                assert sum(64 + len(payload) for payload in more) > bytes_max

    @rule(clock=st.integers(-1001, 1001))
    def find_timestamp(self, clock: int) -> None:
        found = self.partition.reader.find_timestamp(self.partition.log.written, NOW_US + clock)
        times = [timestamp for _, timestamp in self.model[self.first :]]
        assert times == sorted(times)
        assert found == self.first + sum(timestamp < NOW_US + clock for timestamp in times)

    @invariant()
    def the_log_is_the_list(self) -> None:
        written = self.partition.log.written
        assert written.next_offset == len(self.model)
        assert written.first_offset == self.first
        assert written.size_bytes == self.size_of_messages(self.first, len(self.model))
        assert written.segment_count == len(self.partition.log.sealed) + 1
        assert self.partition.log.staged_messages == len(self.staged)
        slices = self.partition.reader.read(written, 0, ALL, ALL)
        assert payloads_in(slices) == [payload for payload, _ in self.model[self.first :]]

    def size_of_messages(self, start: int, end: int) -> int:
        return sum(64 + len(payload) for payload, _ in self.model[start:end])


LogMachine.TestCase.settings = settings(
    max_examples=60,
    stateful_step_count=30,
    derandomize=True,
)
TestLogModel = pytest.mark.no_cover(pytest.mark.slow(LogMachine.TestCase))
