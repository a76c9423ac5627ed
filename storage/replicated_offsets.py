"""The committed offsets of a partition whose lane has to know of them first."""

from borzoi.protocol.identifiers import ConsumerKind
from borzoi.storage.offsets import ConsumerOffsets


class ReplicatedOffsets(ConsumerOffsets):
    """Offsets that go into a lane; the files are what the lane had, or newer."""

    def changed(self) -> list[tuple[ConsumerKind, int, int]]:
        """Kind, id and offset of every commit that write() has to bring to the files."""
        return [(kind, id, self._offsets[kind, id]) for kind, id in self._before_commit]

    def take_back(self) -> None:
        """Forget the commits that write() has not brought to the files."""
        self._take_back()
