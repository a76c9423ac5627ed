"""A topic with a group, as the metadata of a test."""

from typing import cast

from borzoi.shards.changes.service import MetadataService
from borzoi.shards.metadata.effects import GroupRef
from borzoi.shards.metadata.state import Group, Run, State, Stream, Topic
from tests.shards.owner import TARGET

PARTITIONS = 4
BIRTH = 6
GROUP = GroupRef(0, 0, 0)


def world() -> State:
    topic = Topic(0, "t", 0, 1, 0, 0, 1, runs=[Run(0, PARTITIONS, TARGET.birth, TARGET.slot, 0)])
    topic.groups[0] = Group(0, "g", 0, BIRTH)
    stream = Stream(0, "s", 0, topics={0: topic})
    return State(streams={0: stream})


class StandingMetadata:
    """What groups ask of a MetadataService, over a state that only the test changes."""

    def __init__(self) -> None:
        self.state = world()

    def refresh(self) -> State:
        return self.state

    @property
    def as_service(self) -> MetadataService:
        return cast(MetadataService, self)

    def delete_group(self) -> None:
        self.state.streams[0].topics[0].groups.clear()
