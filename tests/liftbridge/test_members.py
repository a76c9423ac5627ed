"""Members of consumer groups that are silent for too long leave, whichever shard heard of them."""

from collections.abc import Coroutine
from typing import Any, cast

from borzoi.shards.attached.attachment import BridgeGroup, BridgeState
from borzoi.shards.bridge.members import LOOK_INTERVAL_S, MemberHeard, MemberWatch
from borzoi.shards.changes.service import MetadataService
from borzoi.shards.decisions.attaching import LeaveBridgeGroup
from borzoi.shards.rings.requests import Done, Request
from tests.shards.hand_loop import HandLoop

TIMEOUT_S = 15.0


class Loop(HandLoop):
    """A task runs to its end in the next turn."""

    def create_task(self, work: Coroutine[Any, Any, None]) -> "Loop":
        self.call_soon(_run, work)
        return self

    def add_done_callback(self, _callback: object) -> None:
        """What is to happen when a task has ended."""


def _run(work: Coroutine[Any, Any, None]) -> None:
    try:
        work.send(None)
    except StopIteration:
        return
    raise AssertionError("the work waits")


class Metadata:
    """Groups that members leave."""

    def __init__(self, groups: dict[str, BridgeGroup]) -> None:
        self.seen_bridge = BridgeState({}, groups)
        self.left: list[str] = []

    def refresh(self) -> "Metadata":
        return self

    async def change(self, command: LeaveBridgeGroup, _user_id: int) -> None:
        self.left.append(command.member)
        group = self.seen_bridge.groups[command.group].without(command.member)
        if group is None:
            del self.seen_bridge.groups[command.group]
        else:
            self.seen_bridge.groups[command.group] = group


def watch_of(
    loop: Loop, shard: int, metadata: Metadata, asked: list[tuple[int, Request]]
) -> MemberWatch:
    def ask(to: int, request: Request, _done: Done) -> None:
        asked.append((to, request))

    return MemberWatch(loop.as_loop, shard, cast(MetadataService, metadata), ask, TIMEOUT_S)


def test_silent_members_leave_and_heartbeats_of_any_shard_keep_the_others() -> None:
    loop, asked = Loop(), list[tuple[int, Request]]()
    metadata = Metadata({"g": BridgeGroup(2, {"near": ("s",), "far": ("s",), "silent": ("s",)})})
    first, second = (watch_of(loop, shard, metadata, asked) for shard in (0, 1))
    for one in (first, second):
        one.start()
    while loop.now < 1000.0 + 3 * TIMEOUT_S:
        first.heard_of("g", "near")
        second.heard_of("g", "far")
        for to, request in asked:
            assert to == 0
            assert isinstance(request, MemberHeard)
            first.serve(1, request, memoryview(b""), lambda *_: None)
        asked.clear()
        before = loop.now
        loop.advance(LOOK_INTERVAL_S)
        if metadata.left and before < 1000.0 + 2 * TIMEOUT_S:
            assert before >= 1000.0 + TIMEOUT_S
    assert metadata.left == ["silent"]
    assert metadata.seen_bridge.groups["g"].epoch == 3


def test_the_last_member_takes_the_group_along() -> None:
    loop = Loop()
    metadata = Metadata({"g": BridgeGroup(0, {"only": ("s",)})})
    watch_of(loop, 0, metadata, []).start()
    loop.advance(LOOK_INTERVAL_S)
    assert metadata.left == []
    loop.advance(2 * TIMEOUT_S)
    assert metadata.left == ["only"]
    assert metadata.seen_bridge.groups == {}
