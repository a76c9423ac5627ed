"""A request to the owner of a partition is carried out here, or asked of its shard."""

from typing import Any, cast

from borzoi.protocol.errors import PartitionNotFound
from borzoi.router.placement import pack_namespace, shard_of
from borzoi.router.target import Target
from borzoi.shards.changes.service import MetadataService
from borzoi.shards.ports.owners import Owners
from borzoi.shards.rings.peers import Peers
from borzoi.shards.rings.requests import NO_SLOT, AtOwner, Done, Request

SHARDS = 2
TARGETS = [Target(pack_namespace(1, 1, number), 7, number) for number in range(8)]
HERE = next(one for one in TARGETS if shard_of(one.namespace, SHARDS) == 0)
THERE = next(one for one in TARGETS if shard_of(one.namespace, SHARDS) == 1)
NOTHING = memoryview(b"")


class Note(AtOwner[list[Target]]):
    """Note the target at its owner."""

    KIND = 202

    def carry_out(self, at: list[Target], done: Done) -> None:
        at.append(self.target)
        done(0, len(at))


class Scene:
    """Shard 0 of two."""

    def __init__(self) -> None:
        self.noted: list[Target] = []
        self.asked: list[tuple[int, Request]] = []
        self.answers: list[tuple[int, ...]] = []
        self.refreshed = 0
        itself: Any = self
        self.owners = Owners(
            0, SHARDS, cast(Peers, itself), cast(MetadataService, itself), self.noted
        )

    def ask(self, shard: int, request: Request, _done: Done) -> None:
        self.asked.append((shard, request))

    def refresh(self) -> None:
        self.refreshed += 1

    def target_of(self, namespace: int) -> Target:
        found = [one for one in TARGETS if one.namespace == namespace]
        if not found:
            raise PartitionNotFound
        return found[0]

    def done(self, *results: int) -> None:
        self.answers.append(results)


def test_what_is_ours_is_carried_out_at_once() -> None:
    scene = Scene()
    scene.owners.do(Note(HERE), scene.done)
    assert scene.noted == [HERE]
    assert scene.answers == [(0, 1)]
    assert scene.asked == []


def test_the_owner_of_another_shard_is_asked() -> None:
    scene = Scene()
    scene.owners.do(Note(THERE), scene.done)
    assert scene.asked == [(1, Note(THERE))]
    assert scene.noted == []
    assert scene.answers == []


def test_a_peers_request_is_carried_out_with_the_slot_that_the_metadata_says() -> None:
    scene = Scene()
    scene.owners.serve(1, Note(HERE._replace(slot=NO_SLOT)), NOTHING, scene.done)
    assert scene.refreshed == 1
    assert scene.noted == [HERE]
    assert scene.answers == [(0, 1)]


def test_a_peers_request_for_another_life_or_no_partition_is_refused() -> None:
    scene = Scene()
    for target in (HERE._replace(birth=6), Target(pack_namespace(9, 9, 9), 7, NO_SLOT)):
        scene.owners.serve(1, Note(target), NOTHING, scene.done)
    assert scene.answers == [(PartitionNotFound.status,)] * 2
    assert scene.noted == []
