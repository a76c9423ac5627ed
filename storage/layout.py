"""Where everything lies below the data directory.

    <root>/                                    mode 0700
        info.json                              which format this directory has
        state.messages                         the metadata log
        state.snapshot                         what its first entries come to
        encryption-check                       once anything was encrypted: by it the key is known
        cluster-member                         whose copy this is, with replication
        archive-id                             whose an archive is that was made from here
        clean-stop.<shard>                     only while the broker is stopped
        last-stop.<shard>                      what it was before this run: durable up to there
        backup/  logs/  runtime/  trash/
        streams/<id>/topics/<id>/partitions/<id>/
            birth                              which life of this partition the files belong to
            recovery-point                     durable up to here
            <20 digits>.log  <20 digits>.index named by the first offset inside
            <20 digits>.log.<codec>            in the place of a sealed .log: compressed
            offsets/consumers/<id>  offsets/groups/<id>  offsets/users

Only numbers reach a path, never names that users choose. Nothing here keeps state.
"""

import os
from collections.abc import Iterator
from typing import Final, NamedTuple

from borzoi.protocol.identifiers import ConsumerKind
from borzoi.storage.codecs import Codec
from borzoi.storage.files import TEMPORARY_SUFFIX, Files, Path

CURRENT_CONFIG_FILE: Final = "current_config.toml"
LOG_SUFFIX: Final = ".log"
INDEX_SUFFIX: Final = ".index"
COMPRESSED: Final = (Codec.GZIP, Codec.LZ4, Codec.ZSTD)
SEGMENT_DIGITS: Final = 20
BIRTH_FILE: Final = "birth"
RECOVERY_POINT_FILE: Final = "recovery-point"
OFFSETS_DIRECTORY: Final = "offsets"
OFFSET_DIRECTORIES: Final = {
    ConsumerKind.CONSUMER: os.path.join(OFFSETS_DIRECTORY, "consumers"),
    ConsumerKind.GROUP: os.path.join(OFFSETS_DIRECTORY, "groups"),
}
CLEAN_STOP_PREFIX: Final = "clean-stop."
LAST_STOP_PREFIX: Final = "last-stop."

# partitions, topic id, topics, stream id, streams, root: a partition's directory is durable when
# the names in all of these are synced.
LEVELS_ABOVE_PARTITION: Final = 6


class PartitionDirectory(NamedTuple):
    """The directory of a partition, and the ids that its path says."""

    stream_id: int
    topic_id: int
    partition_id: int
    path: str


class DataLayout:
    """The paths of one data directory."""

    def __init__(
        self,
        root: Path,
        stream_dir: str = "streams",
        topic_dir: str = "topics",
        partition_dir: str = "partitions",
    ) -> None:
        for name in (stream_dir, topic_dir, partition_dir):
            if not name or name in (".", "..") or "/" in name or "\0" in name:
                raise ValueError(f"a directory name is needed, not {name!r}")
        self.root = os.path.abspath(root)
        self._topic_dir = topic_dir
        self._partition_dir = partition_dir
        self.streams = os.path.join(self.root, stream_dir)
        self.state_log = os.path.join(self.root, "state.messages")
        self.state_snapshot = os.path.join(self.root, "state.snapshot")
        self.info_file = os.path.join(self.root, "info.json")
        self.encryption_check_file = os.path.join(self.root, "encryption-check")
        self.membership = os.path.join(self.root, "cluster-member")
        self.archive_id = os.path.join(self.root, "archive-id")
        self.jwt_key = os.path.join(self.root, "jwt-key")
        self.jwt_rsa_key = os.path.join(self.root, "jwt-key.pem")
        self.revoked_tokens = os.path.join(self.root, "revoked-tokens")
        self.runtime = os.path.join(self.root, "runtime")
        self.logs = os.path.join(self.root, "logs")
        self.backup = os.path.join(self.root, "backup")
        self.trash = os.path.join(self.root, "trash")

    def stream(self, stream_id: int) -> str:
        """Returns the directory of a stream."""
        return os.path.join(self.streams, str(stream_id))

    def topic(self, stream_id: int, topic_id: int) -> str:
        """Returns the directory of a topic."""
        return os.path.join(self.stream(stream_id), self._topic_dir, str(topic_id))

    def partition(self, stream_id: int, topic_id: int, partition_id: int) -> str:
        """Returns the directory of a partition."""
        topic = self.topic(stream_id, topic_id)
        return os.path.join(topic, self._partition_dir, str(partition_id))

    def clean_stop_file(self, shard: int) -> str:
        """Returns the path of a shard's record of the clean stop."""
        return os.path.join(self.root, f"{CLEAN_STOP_PREFIX}{shard}")

    def create_skeleton(self, files: Files) -> None:
        """Make what every data directory has. Durable when it returns."""
        for path in (self.root, self.streams, self.runtime, self.logs, self.backup, self.trash):
            files.makedirs(path)
        files.fsync_directory(self.root)
        files.fsync_directory(os.path.dirname(self.root))

    def stream_directories(self, files: Files) -> list[tuple[int, str]]:
        """Returns ids and paths of all streams that have a directory."""
        return _numbered(files, self.streams)

    def topic_directories(self, files: Files, stream_id: int) -> list[tuple[int, str]]:
        """Returns ids and paths of all topics of a stream that have a directory."""
        return _numbered(files, os.path.join(self.stream(stream_id), self._topic_dir))

    def partition_directories(self, files: Files) -> Iterator[PartitionDirectory]:
        """Every partition that has a directory, in the order of the ids."""
        for stream_id, _ in self.stream_directories(files):
            for topic_id, topic in self.topic_directories(files, stream_id):
                for partition_id, path in _numbered(
                    files, os.path.join(topic, self._partition_dir)
                ):
                    yield PartitionDirectory(stream_id, topic_id, partition_id, path)


def segment_name(first_offset: int) -> str:
    """Returns the name of a segment's files, without a suffix."""
    return f"{first_offset:0{SEGMENT_DIGITS}d}"


def log_path(directory: str, first_offset: int) -> str:
    """Returns the path of a plain log file."""
    return os.path.join(directory, segment_name(first_offset) + LOG_SUFFIX)


def log_suffix(codec: Codec) -> str:
    """Returns the suffix of log files with this codec."""
    return LOG_SUFFIX if codec is Codec.NONE else f"{LOG_SUFFIX}.{codec.label}"


def stored_log_path(directory: str, first_offset: int, codec: Codec) -> str:
    """The file that holds the messages of a segment, compressed or not."""
    return os.path.join(directory, segment_name(first_offset) + log_suffix(codec))


def compressed_paths(directory: str, first_offset: int) -> list[str]:
    """Every file that a compressed segment may be."""
    return [stored_log_path(directory, first_offset, codec) for codec in COMPRESSED]


def compressing_path(directory: str, first_offset: int, codec: Codec) -> str:
    """Where a segment is compressed to before it counts; a leftover after a crash."""
    return stored_log_path(directory, first_offset, codec) + TEMPORARY_SUFFIX


def index_path(directory: str, first_offset: int) -> str:
    """Returns the path of an index file."""
    return os.path.join(directory, segment_name(first_offset) + INDEX_SUFFIX)


def segment_first_offsets(names: list[str], suffix: str) -> list[int]:
    """The segments among the names of a directory, in ascending order."""
    stems = [name.removesuffix(suffix) for name in names if name.endswith(suffix)]
    return sorted(int(stem) for stem in stems if is_segment_name(stem))


def segment_codecs(names: list[str]) -> dict[int, Codec]:
    """The segments among the names of a directory, ascending, and how each is stored.

    A plain log counts before a compressed one: the compression was not finished then.
    """
    found = {
        segment: codec
        for codec in (*COMPRESSED, Codec.NONE)
        for segment in segment_first_offsets(names, log_suffix(codec))
    }
    return dict(sorted(found.items()))


def is_temporary(name: str) -> bool:
    """Whether a file of a partition has this name while it is being made: a leftover of a crash."""
    stem = name.removesuffix(TEMPORARY_SUFFIX)
    suffixes = (INDEX_SUFFIX, *map(log_suffix, Codec))
    return stem != name and (
        stem in (BIRTH_FILE, RECOVERY_POINT_FILE)
        or any(
            stem.endswith(suffix) and is_segment_name(stem.removesuffix(suffix))
            for suffix in suffixes
        )
    )


def is_segment_name(stem: str) -> bool:
    """Returns whether a name without its suffix is that of a segment."""
    return len(stem) == SEGMENT_DIGITS and stem.isascii() and stem.isdigit()


def is_number(name: str) -> bool:
    """Is this how we write a number? Another way to write it would name a second file."""
    return name.isascii() and name.isdigit() and (name == "0" or name[0] != "0")


def _numbered(files: Files, directory: str) -> list[tuple[int, str]]:
    """Directories only: a file that has such a name is none of ours."""
    try:
        names = files.listdir(directory)
    except (FileNotFoundError, NotADirectoryError):
        return []
    numbers = sorted(int(name) for name in names if is_number(name))
    found = [(number, os.path.join(directory, str(number))) for number in numbers]
    return [(number, path) for number, path in found if os.path.isdir(path)]
