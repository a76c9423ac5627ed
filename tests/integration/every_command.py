"""One well-formed request for each of the commands, about things that do not exist."""

from typing import Final

from borzoi.protocol import commands
from borzoi.protocol.codes import Code
from borzoi.protocol.generations import code_of, encode_command
from borzoi.protocol.identifiers import (
    Consumer,
    ConsumerKind,
    PartitionId,
    PollingStrategy,
    StrategyKind,
)
from borzoi.protocol.message import Message
from borzoi.protocol.permissions import UserStatus
from borzoi.protocol.send_messages import encode_send_messages

NOWHERE: Final = "a name that nothing has"
WHO: Final = Consumer(ConsumerKind.CONSUMER, 0)

COMMANDS: Final[tuple[commands.Command, ...]] = (
    commands.Ping(),
    commands.GetStats(),
    commands.GetSnapshot(commands.SnapshotCompression.DEFLATED, (commands.SnapshotType.TEST,)),
    commands.GetClusterMetadata(),
    commands.GetMe(),
    commands.GetClient(1),
    commands.GetClients(),
    commands.GetUser(NOWHERE),
    commands.GetUsers(),
    commands.CreateUser("newcomer", "something", UserStatus.ACTIVE, None),
    commands.DeleteUser(NOWHERE),
    commands.UpdateUser(NOWHERE, None, None),
    commands.UpdatePermissions(NOWHERE, None),
    commands.ChangePassword(NOWHERE, "something", "otherwise"),
    commands.LoginUser("iggy", "iggy"),
    commands.LogoutUser(),
    commands.GetPersonalAccessTokens(),
    commands.CreatePersonalAccessToken("token", 0),
    commands.DeletePersonalAccessToken("token"),
    commands.LoginWithPersonalAccessToken("token"),
    commands.PollMessages(WHO, NOWHERE, NOWHERE, 0, PollingStrategy(StrategyKind.FIRST), 1, False),
    commands.FlushUnsavedBuffer(NOWHERE, NOWHERE, 0, False),
    commands.GetConsumerOffset(WHO, NOWHERE, NOWHERE, 0),
    commands.StoreConsumerOffset(WHO, NOWHERE, NOWHERE, 0, 0),
    commands.DeleteConsumerOffset(WHO, NOWHERE, NOWHERE, 0),
    commands.GetStream(NOWHERE),
    commands.GetStreams(),
    commands.CreateStream(NOWHERE),
    commands.DeleteStream(NOWHERE),
    commands.UpdateStream(NOWHERE, NOWHERE),
    commands.PurgeStream(NOWHERE),
    commands.GetTopic(NOWHERE, NOWHERE),
    commands.GetTopics(NOWHERE),
    commands.CreateTopic(NOWHERE, 1, 1, 0, 0, 1, NOWHERE),
    commands.DeleteTopic(NOWHERE, NOWHERE),
    commands.UpdateTopic(NOWHERE, NOWHERE, 1, 0, 0, 1, NOWHERE),
    commands.PurgeTopic(NOWHERE, NOWHERE),
    commands.CreatePartitions(NOWHERE, NOWHERE, 1),
    commands.DeletePartitions(NOWHERE, NOWHERE, 1),
    commands.DeleteSegments(NOWHERE, NOWHERE, 0, 1),
    commands.GetConsumerGroup(NOWHERE, NOWHERE, NOWHERE),
    commands.GetConsumerGroups(NOWHERE, NOWHERE),
    commands.CreateConsumerGroup(NOWHERE, NOWHERE, NOWHERE),
    commands.DeleteConsumerGroup(NOWHERE, NOWHERE, NOWHERE),
    commands.JoinConsumerGroup(NOWHERE, NOWHERE, NOWHERE),
    commands.LeaveConsumerGroup(NOWHERE, NOWHERE, NOWHERE),
)

REQUESTS: Final[dict[Code, bytes]] = {
    **{code_of(command): encode_command(command) for command in COMMANDS},
    Code.SEND_MESSAGES: encode_send_messages(NOWHERE, NOWHERE, PartitionId(0), [Message(b"x")]),
}
"""The payload of a request by its code."""
