"""What an archive says about itself: its keys, and the manifests that make objects count.

    archive.json                                     whose archive this is
    state/<20 digits>/state.messages  ...            the metadata up to this entry of its log
    state/<20 digits>.json                           its manifest
    offsets/<shard>.json                             what consumers have read, as of the last round
    streams/<id>/topics/<id>/partitions/<id>/<birth>/
        <20 digits>.log  <20 digits>.index  ...      the files of a segment, whatever they are
        <20 digits>.json                             its manifest

As below the data directory, with one level more: a partition's life. Ids are given out again and
a purge starts at offset 0, and neither may overwrite what was archived before.

A manifest is written last, when everything that it names was read back and found right. What has
no manifest does not count. It is a line of JSON and a line with the SHA-256 of the first.

Pure: bytes in, values out.
"""

import hashlib
from typing import Final, NamedTuple, Protocol, TypeVar

import msgspec

from borzoi.storage.layout import SEGMENT_DIGITS, is_number, is_segment_name, segment_name

FORMAT: Final = 1
MANIFEST_SUFFIX: Final = ".json"
MANIFEST_SIZE_MAX: Final = 1 << 20
OFFSETS_SIZE_MAX: Final = 1 << 30
IDENTITY_KEY: Final = "archive.json"
STATE: Final = "state"
OFFSETS: Final = "offsets"
STREAMS: Final = "streams"
SEGMENT_KEY_PARTS: Final = 8  # streams/1/topics/2/partitions/3/<birth>/<segment>.<suffix>


class ManifestDamaged(Exception):
    """These bytes are no manifest that this version can use."""


class FileRecord(msgspec.Struct, frozen=True):
    """A file of the data directory, as it was archived."""

    name: str
    size: int
    sha256: str


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """Whose archive this is: of the data directory whose `archive-id` says the same."""

    format: int = FORMAT
    id: str


class SegmentManifest(msgspec.Struct, frozen=True, kw_only=True):
    """A sealed segment. Sizes are those of its messages; `files` has those of the objects."""

    format: int = FORMAT
    birth: int
    first_offset: int
    message_count: int
    size_bytes: int
    first_timestamp: int
    last_timestamp: int
    archived_at: int
    files: tuple[FileRecord, ...]

    @property
    def end_offset(self) -> int:
        """The offset behind the last message."""
        return self.first_offset + self.message_count


class StateManifest(msgspec.Struct, frozen=True, kw_only=True):
    """The metadata up to an entry."""

    format: int = FORMAT
    entry: int
    archived_at: int
    files: tuple[FileRecord, ...]


class PartitionOffsets(msgspec.Struct, frozen=True, array_like=True):
    """Committed offsets in one life of a partition: kind, id, offset of each consumer."""

    stream_id: int
    topic_id: int
    partition_id: int
    birth: int
    committed: tuple[tuple[int, int, int], ...]


class OffsetsManifest(msgspec.Struct, frozen=True, kw_only=True):
    """All that the consumers of one shard's partitions have read."""

    format: int = FORMAT
    shard_count: int
    archived_at: int
    partitions: tuple[PartitionOffsets, ...]


class Life(NamedTuple):
    """One life of a partition."""

    stream_id: int
    topic_id: int
    partition_id: int
    birth: int

    @property
    def prefix(self) -> str:
        """The part that the keys of all objects of this life begin with."""
        return (
            f"{STREAMS}/{self.stream_id}/topics/{self.topic_id}"
            f"/partitions/{self.partition_id}/{self.birth}"
        )


class SegmentKey(NamedTuple):
    """A segment of a life, and which of its objects a key names."""

    life: Life
    first_offset: int
    is_manifest: bool


class Versioned(Protocol):
    """What says which format it has."""

    @property
    def format(self) -> int:
        """The format of its bytes."""


Manifest = TypeVar("Manifest", bound=Versioned)


def encode(manifest: msgspec.Struct) -> bytes:
    """Returns the manifest as a line of JSON, and a second line with its SHA-256."""
    line = msgspec.json.encode(manifest)
    return line + b"\n" + hashlib.sha256(line).hexdigest().encode() + b"\n"


def decode(data: bytes, kind: type[Manifest]) -> Manifest:
    """The manifest in these bytes."""
    line, _, rest = data.partition(b"\n")
    if rest != hashlib.sha256(line).hexdigest().encode() + b"\n":
        raise ManifestDamaged("its SHA-256 does not match")
    try:
        manifest = msgspec.json.decode(line, type=kind)
    except msgspec.DecodeError as error:
        raise ManifestDamaged(f"it cannot be understood: {error}") from error
    if manifest.format != FORMAT:
        raise ManifestDamaged(f"it has format {manifest.format}, this version knows {FORMAT}")
    return manifest


def segment_manifest_key(life: Life, first_offset: int) -> str:
    """Returns the key of a segment's manifest."""
    return f"{life.prefix}/{segment_name(first_offset)}{MANIFEST_SUFFIX}"


def state_prefix(entry: int) -> str:
    """Returns the part that the keys of a state begin with."""
    return f"{STATE}/{entry:0{SEGMENT_DIGITS}d}"


def state_manifest_key(entry: int) -> str:
    """Returns the key of a state's manifest."""
    return state_prefix(entry) + MANIFEST_SUFFIX


def state_entry(key: str) -> int | None:
    """The entry of which this key is the manifest, None if it is another key."""
    stem = key.removeprefix(f"{STATE}/").removesuffix(MANIFEST_SUFFIX)
    return int(stem) if is_segment_name(stem) and key == state_manifest_key(int(stem)) else None


def offsets_key(shard: int) -> str:
    """Returns the key of the offsets that a shard has archived."""
    return f"{OFFSETS}/{shard}{MANIFEST_SUFFIX}"


def segment_key(key: str) -> SegmentKey | None:
    """What a key below `streams/` names, None if it is none of ours."""
    parts = key.split("/")
    if len(parts) != SEGMENT_KEY_PARTS or parts[0:6:2] != [STREAMS, "topics", "partitions"]:
        return None
    numbers = [parts[1], parts[3], parts[5], parts[6]]
    stem, _, suffix = parts[7].partition(".")
    if not all(map(is_number, numbers)) or not is_segment_name(stem):
        return None
    life = Life(*map(int, numbers))
    return SegmentKey(life, int(stem), f".{suffix}" == MANIFEST_SUFFIX)


def is_file_of(segment: int, name: str) -> bool:
    """May a manifest of this segment name this file? It decides about a path to write to."""
    return name.startswith(segment_name(segment) + ".") and "/" not in name and "\0" not in name
