"""A partition in a temporary directory: the writer's side, the reader's side, and batches."""

from collections.abc import Sequence
from pathlib import Path

from borzoi.protocol.errors import CannotReadMessage
from borzoi.protocol.message import Message, encode_messages
from borzoi.storage.clean_stop import CleanPartition
from borzoi.storage.codecs import Codec
from borzoi.storage.compressed_log import packed_form
from borzoi.storage.compressor import compress_segment
from borzoi.storage.encrypted import PartitionCipher
from borzoi.storage.files import Files
from borzoi.storage.layout import DataLayout, stored_log_path
from borzoi.storage.log import LogSettings, PartitionLog
from borzoi.storage.mapped import WindowCache
from borzoi.storage.outcome import Doubt, Slices
from borzoi.storage.published import Published
from borzoi.storage.reader import PartitionReader
from borzoi.storage.reencryptor import reencrypt_segment
from borzoi.storage.segment import Compressed
from borzoi.storage.trash import retire_directory
from tests.endings import new_open_files

WINDOW_SIZE = 64 * 1024
BIRTH = 7
NOW_US = 1_700_000_000_000_000
ALL = 1 << 30


def new_batch(payloads: Sequence[bytes]) -> memoryview:
    messages = [Message(payload, id=number + 1) for number, payload in enumerate(payloads)]
    return memoryview(bytearray(encode_messages(messages)))


def payloads_in(slices: Slices) -> list[bytes]:
    """What a client would see; fails if the bytes are not exactly the messages promised."""
    data = memoryview(b"".join(slices.views))
    assert len(data) == slices.size
    found: list[bytes] = []
    at = 0
    while at < len(data):
        header = data[at : at + 64]
        assert int.from_bytes(header[24:32], "little") == slices.first_offset + len(found)
        end = at + 64 + int.from_bytes(header[52:56], "little")
        found.append(bytes(data[at + 64 : end]))
        at = end + int.from_bytes(header[48:52], "little")
    assert at == len(data)
    assert len(found) == slices.message_count
    return found


def overwrite(path: Path, data: bytes) -> None:
    """Give a file this content, in place: emptied first, it would be flushed to the disk."""
    with path.open("r+b") as file:
        file.write(data)
        file.truncate()


class Partition:
    """A log and a reader over one directory, and the clock."""

    def __init__(
        self,
        root: Path,
        *,
        segment_size_max: int = 1 << 20,
        files: Files | None = None,
        open_files_max: int = 64,
        cipher: PartitionCipher | None = None,
    ) -> None:
        layout = DataLayout(root)
        self.directory = layout.partition(0, 0, 0)
        self.trash = layout.trash
        self.files = files or Files()
        self.open_files = new_open_files(self.files, open_files_max)
        self.settings = LogSettings(segment_size_max)
        self.birth = BIRTH
        self.cipher = cipher
        self.now_us = NOW_US
        self.log = self.new_log()
        self.reader = self.new_reader()

    def append(self, *payloads: bytes) -> int:
        first_offset = self.stage(*payloads)
        self.log.write()
        return first_offset

    def stage(self, *payloads: bytes) -> int:
        return self.log.stage(new_batch(payloads), len(payloads), self.now_us)

    def delete_oldest(self, count: int) -> int:
        """Delete as the owner does: synced before, published before, unlinked after."""
        self.log.sync()
        before = self.log.written
        count = min(count, len(self.log.segments.deletable(before)))
        expected = self.log.segments.without_oldest(before, count)
        paths, error = self.log.segments.retire_oldest(count, self.trash, f"{self.birth}-0")
        assert error is None
        assert self.log.written == expected
        for path in paths:
            self.files.unlink(path)
        return count

    def compress(self, codec: Codec, *, block_size: int = 200, only: int | None = None) -> int:
        """Compress all that can be, as the owner does, whether it is worth it or not."""
        self.log.sync()
        segments = self.log.segments.compressible(self.log.written)
        if only is not None:
            segments = [one for one in segments if one.first_offset == only]
        for segment in segments:
            first_offset = segment.first_offset
            size = compress_segment(
                self.directory, segment, codec, self.files, lambda: False,
                cipher=self.cipher, block_size=block_size, saved_min=-100,
            )  # fmt: skip
            assert self.log.segments.place_compressed(first_offset, codec)
            self.files.fsync_directory(self.directory)
            compressed = Compressed(codec, size)
            form = packed_form(stored_log_path(self.directory, first_offset, codec), self.files)
            for path in self.log.segments.retire_plain(
                first_offset, compressed, form, self.trash, "plain-7-0"
            ):
                self.files.unlink(path)
            self.files.fsync_directory(self.directory)
        return len(segments)

    def reencrypt(self, *, only: int | None = None) -> int:
        """Encrypt all that can be with the key of now, as the owner does; how many segments."""
        self.log.sync()
        segments = self.log.segments.outdated(self.log.written)
        if only is not None:
            segments = [one for one in segments if one.first_offset == only]
        assert self.cipher is not None or not segments
        for segment in segments:
            assert self.cipher is not None
            form, old_file = reencrypt_segment(
                self.directory, segment, self.files, lambda: False, self.cipher
            )
            try:
                assert self.log.segments.place_reencrypted(segment, form)
            finally:
                self.files.close(old_file)
            self.files.fsync_directory(self.directory)
        return len(segments)

    def repair_index(self, first_offset: int) -> list[str]:
        """As the owner does it when a reader has complained."""
        entries, report = self.log.segments.check_index(first_offset)
        if entries is not None:
            assert self.log.segments.replace_index(first_offset, entries)
        return report

    def reopen(
        self,
        clean: CleanPartition | None = None,
        board: Published | None = None,
        files: Files | None = None,
        last_stop: CleanPartition | None = None,
    ) -> list[str]:
        """As after the death of the process; returns the report of the recovery."""
        self.open_files.close()
        if files is not None:
            self.files = files
            self.open_files = new_open_files(files, 64)
        self.log = PartitionLog.recover(
            self.directory,
            self.birth,
            self.settings,
            self.files,
            clean,
            board=board,
            last_stop=last_stop,
            open_files=self.open_files,
            cipher=self.cipher,
        )
        self.reader = self.new_reader()
        return self.log.recovery.report

    def new_log(self) -> PartitionLog:
        return PartitionLog.create(
            self.directory,
            self.birth,
            self.settings,
            self.files,
            open_files=self.open_files,
            cipher=self.cipher,
        )

    def new_reader(self, *, validate_checksum: bool = False) -> PartitionReader:
        return PartitionReader(
            self.directory,
            self.new_windows(),
            Files(),
            validate_checksum=validate_checksum,
            cipher=self.cipher,
        )

    def new_windows(self) -> WindowCache:
        return WindowCache(16, WINDOW_SIZE)

    def read(self, first_offset: int = 0, count: int = ALL, bytes_max: int = ALL) -> list[bytes]:
        return payloads_in(self.read_slices(first_offset, count, bytes_max))

    def read_slices(self, first_offset: int, count: int = ALL, bytes_max: int = ALL) -> Slices:
        """Read; where messages are missing, the owner is asked whether they should be there.

        It finds the index as it has to be: a wrong one is for a test to repair.
        """
        while True:
            found = self.reader.attempt(
                self.log.written, first_offset, count, bytes_max, may_wait=True
            )
            if isinstance(found, Slices):
                return found
            assert isinstance(found, Doubt)
            if not isinstance(found.error, CannotReadMessage):
                raise found.error
            assert self.log.segments.check_index(found.segment).entries is None
            self.reader.accept(found.segment)

    def path(self, name: str) -> Path:
        return Path(self.directory, name)

    def log_file(self, first_offset: int = 0) -> Path:
        return self.path(f"{first_offset:020d}.log")

    def index_file(self, first_offset: int = 0) -> Path:
        return self.path(f"{first_offset:020d}.index")

    def sizes(self, suffix: str) -> dict[int, int]:
        return {
            int(path.stem): path.stat().st_size
            for path in sorted(Path(self.directory).glob(f"*{suffix}"))
        }


def begin_next_life(partition: Partition, birth: int) -> None:
    """A purge, step by step as the owner does it: the directory leaves, an empty life begins."""
    partition.log.close()
    retire(partition)
    partition.birth = birth
    partition.log = partition.new_log()
    partition.log.make_files()


def retire(partition: Partition) -> bool:
    """Move what lies in the directory to the trash; False if there is none."""
    name = f"{partition.birth}-0"
    return retire_directory(partition.directory, partition.trash, name, partition.files)
