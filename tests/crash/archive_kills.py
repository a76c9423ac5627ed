"""D8 for the archive: kill -9 while segments are archived, deleted and archived again.

    python -m tests.crash.archive_kills --kills 200 [--mode written|fsync] [--seed N]

As retention_kills, with `archive_expired`: what retention deletes has to be in the archive. After
each kill

    every message that was acknowledged is in its partition or in the archive, in one of them whole
    the archived segments of a partition and what it still has make one run of offsets
    every object is what its manifest says
"""

from dataclasses import dataclass
from pathlib import Path

from borzoi.protocol.message import Message, decode_messages
from borzoi.shards.admin.archive_verify import verify
from borzoi.storage.archive.catalogue import (
    archived_lives,
    gaps,
    read_segment_manifest,
)
from borzoi.storage.archive.store import DirectoryStore
from borzoi.storage.files import Files
from tests.crash.experiment import kill_command
from tests.crash.ledger import Outcome, sender_of
from tests.crash.retention_kills import RetentionKills, Summary


@dataclass
class ArchiveSummary(Summary):
    archived: int = 0

    def __str__(self) -> str:
        return (
            f"mode {self.mode}, seed {self.seed}: {self.group_kills} kills of everything and "
            f"{self.worker_kills} of a worker; {self.acknowledged} messages acknowledged, "
            f"{self.deleted} of them deleted by retention and found in the archive, "
            f"{self.archived} segments in it, 0 damaged"
        )


class ArchiveKills(RetentionKills):
    """One topic that is written, archived and deleted at the same time."""

    def __init__(self, data: Path, mode: str, seed: int) -> None:
        super().__init__(data, mode, seed)
        self.archive = data.with_name("archive")
        self.summary: ArchiveSummary = ArchiveSummary(mode, seed)
        self.broker.settings |= {
            "IGGY_SYSTEM_BACKUP_PATH": str(self.archive),
            "IGGY_SYSTEM_SEGMENT_ARCHIVE_EXPIRED": "true",
            "IGGY_DATA_MAINTENANCE_ARCHIVER_ENABLED": "true",
            "IGGY_DATA_MAINTENANCE_ARCHIVER_INTERVAL": "10 ms",
        }

    def _judge(self, partitions: dict[int, list[Message]], following: dict[int, int]) -> None:
        """After the partitions were read: what was gone by then is archived by now."""
        super()._judge(partitions, following)
        store = DirectoryStore(str(self.archive), Files())
        problems: list[str] = []
        verified = verify(store, lambda _life: True, problems.append)
        assert verified.damaged == 0, problems
        assert not problems, problems
        self.summary.archived = verified.segments
        archived: set[tuple[str, int]] = set()
        for one in archived_lives(store):
            life, segments, _ = one
            manifests = [read_segment_manifest(store, life, first) for first in segments]
            assert manifests[0].first_offset == 0
            assert not list(gaps(manifests))
            kept = partitions[life.partition_id]
            if kept:
                assert kept[0].offset <= manifests[-1].end_offset, "offsets between are nowhere"
            for first in segments:
                data = b"".join(store.read(f"{life.prefix}/{first:020d}.log"))
                messages = list(decode_messages(memoryview(data)))
                assert [m.offset for m in messages] == list(range(first, first + len(messages)))
                archived.update(sender_of(message.payload) for message in messages)
        present = {sender_of(one.payload) for each in partitions.values() for one in each}
        for book in self._books:
            for batch in book.batches:
                if batch.outcome is Outcome.ACKNOWLEDGED:
                    for number in range(batch.first, batch.first + batch.count):
                        sender = (book.name, number)
                        assert sender in present or sender in archived, f"{sender} is nowhere"


def main() -> None:
    kill_command("kill -9 while segments are archived and deleted", ArchiveKills)


if __name__ == "__main__":
    main()
