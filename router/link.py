"""What two shards share: the four ends of the rings between them, as one of them holds them.

        own control memory                     peer's control memory
        request tail, slots   -- requests_out -->   request head
        reply tail, slots     -- replies_out  -->   reply head
        request head          <-- requests_in --    request tail, slots
        reply head            <-- replies_in  --    reply tail, slots

A link lives as long as both shards do. When the peer dies, the link's holder takes what is still in
`replies_in`: a complete record is a real answer, also of a dead peer. Then it drops the link, and
makes a new one over the control memory of the peer's next generation. Making a link sets our own
cursors for that peer to 0; the peer's are 0 because its memory is new. For that reason there is
exactly one link per peer and generation, which is checked.

Descriptors carry the generation of the lender of the memory they point to. This module does not
look into them; the code that drains compares it with `peer_generation`.
"""

from borzoi.router.control import ControlMismatch, OwnControl, SharedControl
from borzoi.router.memory import WORD_SIZE
from borzoi.router.ring import SLOT_SIZE, RingReader, RingWriter


class Link:
    """The rings between this shard and one peer, for one life of each."""

    __slots__ = (
        "dropped",
        "peer",
        "peer_generation",
        "replies_in",
        "replies_out",
        "requests_in",
        "requests_out",
    )

    def __init__(self, own: OwnControl, peer: SharedControl) -> None:
        if own.layout != peer.layout:
            raise ControlMismatch(f"shard {peer.shard} lays its control memory out differently")
        if own.shard == peer.shard:
            raise ControlMismatch(f"shard {own.shard} cannot be linked to itself")
        newest = own.linked_generations[peer.shard]
        if peer.generation <= newest:
            raise ControlMismatch(
                f"shard {peer.shard} was already linked in generation {newest}, "
                f"{peer.generation} is not newer"
            )
        own.linked_generations[peer.shard] = peer.generation
        self.peer = peer.shard
        self.peer_generation = peer.generation
        self.dropped = False

        layout, ours, theirs = own.layout, own.memory.words, peer.memory.words
        in_own, in_peer = peer.shard, own.shard
        for cursor_at in (
            layout.request_tail(in_own),
            layout.reply_tail(in_own),
            layout.request_head(in_own),
            layout.reply_head(in_own),
        ):
            ours[cursor_at] = 0

        slots = layout.ring_slots
        self.requests_out = RingWriter(
            ours,
            layout.request_tail(in_own),
            layout.request_slots(in_own),
            theirs,
            layout.request_head(in_peer),
            slots,
        )
        self.replies_out = RingWriter(
            ours,
            layout.reply_tail(in_own),
            layout.reply_slots(in_own),
            theirs,
            layout.reply_head(in_peer),
            slots,
        )
        self.requests_in = RingReader(
            theirs,
            layout.request_tail(in_peer),
            _records(peer, layout.request_slots(in_peer)),
            ours,
            layout.request_head(in_own),
            slots,
        )
        self.replies_in = RingReader(
            theirs,
            layout.reply_tail(in_peer),
            _records(peer, layout.reply_slots(in_peer)),
            ours,
            layout.reply_head(in_own),
            slots,
        )

    def drop(self) -> None:
        """The peer is gone: pushes raise RingDropped, drains find nothing. May be repeated."""
        if self.dropped:
            return
        self.dropped = True
        self.requests_out.drop()
        self.replies_out.drop()
        self.requests_in.drop()
        self.replies_in.drop()


def _records(control: SharedControl, slots_at: int) -> memoryview:
    start = slots_at * WORD_SIZE
    return control.memory.bytes[start : start + control.layout.ring_slots * SLOT_SIZE]
