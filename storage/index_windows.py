"""Which indexes stay mapped between two reads: the setting `cache_indexes`.

An index is never copied. A look-up maps the file, and its pages are the kernel's cache, shared by
all shards. They are 16 bytes for each message, counted as RssFile of each shard that touched them.
The setting decides which of them a shard keeps mapped when it is done with a read:

    all            every index it has read, sealed or not; the worker also reads those of its own
                   partitions into memory when it starts
    open_segment   those of active segments; an index of a sealed segment shares the few windows
                   that the logs have, and goes when others are read
    none           not one: each lookup maps the file and lets go of it
"""

from enum import Enum
from typing import Final

from borzoi.storage.files import Files
from borzoi.storage.layout import INDEX_SUFFIX, index_path, segment_first_offsets
from borzoi.storage.mapped import WindowCache

KEPT_MAX: Final = 4096
"""So many windows of indexes stay mapped at most, those used last."""


class IndexCaching(Enum):
    """Which indexes are kept."""

    ALL = "all"
    OPEN_SEGMENT = "open_segment"
    NONE = "none"


class IndexWindows:
    """The windows of indexes of one shard, beside those that logs use."""

    def __init__(self, caching: IndexCaching, shared: WindowCache) -> None:
        kept_max = 1 if caching is IndexCaching.NONE else KEPT_MAX
        kept = WindowCache(kept_max, shared.window_size, shared.residency)
        self.caching = caching
        self._kept = kept
        self.of_active = kept
        self.of_sealed = shared if caching is IndexCaching.OPEN_SEGMENT else kept

    @property
    def may_be_held(self) -> bool:
        """Whether a reader may hold on to a window until its next read."""
        return self.caching is not IndexCaching.NONE

    def end_read(self) -> None:
        """Let go of what must not be kept."""
        if self.caching is IndexCaching.NONE:
            self._kept.clear()

    def clear(self) -> None:
        """Let go of everything."""
        self._kept.clear()


def load_indexes(directories: list[str], files: Files) -> int:
    """For a thread: read all indexes once, so that the kernel has them; how many bytes they are."""
    size = 0
    for directory in directories:
        for segment in segment_first_offsets(_names(directory, files), INDEX_SUFFIX):
            size += len(files.read_whole(index_path(directory, segment)) or b"")
    return size


def _names(directory: str, files: Files) -> list[str]:
    try:
        return files.listdir(directory)
    except FileNotFoundError:
        return []  # Made at the first append, or purged meanwhile.
