"""All of a broker's model: one method per command, found by its name."""

import re
from typing import Any

from borzoi.protocol.commands import Command
from borzoi.protocol.commands.groups import JoinConsumerGroup
from borzoi.protocol.commands.offsets import GetConsumerOffset
from borzoi.protocol.generations import code_of
from borzoi.protocol.identifiers import ConsumerKind
from tests.crash.model import MetadataModel
from tests.crash.model_groups import GroupsModel
from tests.crash.model_users import UsersModel


class Model(MetadataModel, GroupsModel, UsersModel):
    """A broker, as far as one client at a time can tell."""

    def apply(self, seat: int, command: Command, reply: Any) -> Any:
        """What the command has to answer; `reply` is what the broker did answer, or None."""
        name = re.sub(r"(?<!^)(?=[A-Z])", "_", type(command).__name__).lower()
        with self.sent_by(self.sessions[seat], code_of(command), for_group=_is_for_group(command)):
            return getattr(self, name)(command, reply)


def _is_for_group(command: Command) -> bool:
    """Whether it needs a session that counts as connected."""
    if isinstance(command, JoinConsumerGroup):
        return True
    consumer = getattr(command, "consumer", None)
    is_groups = consumer is not None and consumer.kind is ConsumerKind.GROUP
    return is_groups and not isinstance(command, GetConsumerOffset)
