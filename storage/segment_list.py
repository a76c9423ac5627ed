"""Which segments a partition has, as one reader knows them, and what it remembers of their bytes.

Owns the views of the segments, the range read last (`hot`) and the offsets found sound
(`verified`): all of it holds for one life of the partition and one state of its files. The owner
may roll, delete and purge at any moment; the directory is listed again when the board shows it.

The directory of an old life has left by the time that anything of a new one is published. So
files that were found *before* the birth expected was read are the right ones. `confirm_birth`
establishes that once for each file found, before anything is returned.

Always: the views ascend, and nothing that is not among them is mapped.
"""

from collections.abc import Callable
from typing import Final

from borzoi.protocol.errors import CannotReadMessage
from borzoi.storage.birth import BirthDamaged, read_birth
from borzoi.storage.files import Files
from borzoi.storage.hot_range import HotRange
from borzoi.storage.layout import segment_codecs
from borzoi.storage.published import Published
from borzoi.storage.segment_view import ReadOnlyFiles, SegmentView, Stale
from borzoi.storage.verified import VerifiedOffsets

RECENT_SIZE: Final = 64 * 1024 * 1024
"""What was written lately is in memory: asking the kernel about it is not worth a call."""


class SegmentList:
    """The segments of one partition directory. One thread of control uses it."""

    def __init__(
        self,
        directory: str,
        files: Files,
        access: ReadOnlyFiles,
        newest: Callable[[], Published] | None,
        recent_size: int = RECENT_SIZE,
    ) -> None:
        """`newest` returns what the owner has published by now."""
        self.directory = directory
        self.recent_size = recent_size
        self.newest = newest
        self.hot: HotRange | None = None
        self.verified = VerifiedOffsets()
        self._files = files
        self._access = access
        self._known: Published | None = None
        self._listed_birth = 0
        self._views: list[SegmentView] = []

    def as_published(self, published: Published) -> list[SegmentView]:
        """The views of a published state, at least one. Stale if the files are others."""
        known = self._known
        if (
            known is None
            or known.active_segment != published.active_segment
            or known.first_offset != published.first_offset
            or known.birth != published.birth
            # A worker died: its successor may have replaced indexes.
            or known.trusted_from != published.trusted_from
        ):
            self._list(published)
            self._known = published
        active = self._views[-1]
        if active.first_offset == published.active_segment:
            active.grow(published.next_offset - published.active_segment, published.end_position)
        return self._views

    def forget(self) -> None:
        """The next read lists the directory again."""
        self._known = None
        # It may have been made from files of another life.
        self.hot = None

    def confirm_birth(self, published: Published) -> None:
        """Stale if a file was found since the last time and the directory has another birth."""
        if self._access.found_unconfirmed:
            if self.birth() != published.birth:
                raise Stale(f"{self.directory} has another birth")
            self._access.found_unconfirmed = False

    def birth(self) -> int | None:
        """The birth that the directory has on disk."""
        try:
            return read_birth(self.directory, self._files)
        except BirthDamaged as error:
            raise CannotReadMessage(str(error)) from error

    def let_go_of_deleted(self) -> None:
        """Unmap segments that the owner has deleted: until then their files take disk space."""
        if self.newest is None or not self._views:
            return
        newest = self.newest()
        if newest.birth == self._listed_birth:
            self._let_go_below(newest.first_offset)

    def let_go(self) -> None:
        """Unmap everything; the next read starts afresh."""
        self._let_go_below(1 << 64)

    @property
    def may_hold(self) -> bool:
        """Whether windows of an index may be held until the next read."""
        return self._access.index_windows.may_be_held

    def has(self, first_offset: int) -> bool:
        """Whether a segment that begins there is known."""
        return any(view.first_offset == first_offset for view in self._views)

    def _let_go_below(self, first_offset: int) -> None:
        self._keep_only([view for view in self._views if view.first_offset >= first_offset])
        if not self._views:
            self._known = None

    def _keep_only(self, views: list[SegmentView]) -> None:
        """Know these segments from now on, and have no other ones mapped."""
        kept = set(map(id, views))
        for view in self._views:
            if id(view) not in kept:
                view.let_go()
        self._views = views
        hot = self.hot
        if hot is not None and not self.has(hot.segment):
            self.hot = None

    def _list(self, published: Published) -> None:
        known, self._known = self._known, None
        same_life = (
            known is not None
            and known.birth == published.birth
            and known.trusted_from == published.trusted_from
        )
        if not same_life:
            self.verified.clear()
            # It looks into the index as it was.
            self.hot = None
        before = {view.first_offset: view for view in self._views} if same_life else {}
        names = self._files.listdir(self.directory)
        self._listed_birth = published.birth
        views = []
        for segment, codec in segment_codecs(names).items():
            # The owner may be ahead of what was published when we looked.
            if published.first_offset <= segment <= published.active_segment:
                view = before.get(segment)
                if view is None or view.codec is not codec:
                    view = SegmentView(self.directory, segment, self._access, codec)
                    if self.hot is not None and self.hot.segment == segment:
                        self.hot = None
                views.append(view)
        self._keep_only(views)
        self._refuse_gaps(published)
        following = published.active_segment
        for view in reversed(views):
            if view.first_offset != published.active_segment:
                view.seal(following)
            following = view.first_offset

    def _refuse_gaps(self, published: Published) -> None:
        """Stale if a segment is not there that the owner has published and not deleted."""
        views = self._views
        if not views:
            raise Stale(f"{self.directory} has no segments")
        is_unmade = views[-1].first_offset != published.active_segment
        missing = published.segment_count - is_unmade - len(views)
        if (
            missing > 0
            and self.newest is not None
            and self.newest().first_offset == published.first_offset
        ):
            # Not deleted. A listing between two names of a segment, plain and compressed, may
            # have neither.
            raise Stale(f"{self.directory} lacks {missing} segments")
        # An empty active segment need not have been made yet; one with messages must be there.
        if is_unmade and published.next_offset != published.active_segment:
            raise Stale(f"{self.directory} lacks segment {published.active_segment}")
