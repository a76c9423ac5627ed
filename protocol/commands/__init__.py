"""Every request as a value: one frozen dataclass per command, its fields in the order of the wire.

Gathered here so that handlers and clients can import any of them from one place.
"""

# ruff: noqa: F401 - gathered for others

from typing import TypeAlias

from borzoi.protocol.commands.groups import (
    CreateConsumerGroup,
    DeleteConsumerGroup,
    GetConsumerGroup,
    GetConsumerGroups,
    JoinConsumerGroup,
    LeaveConsumerGroup,
    SyncConsumerGroup,
)
from borzoi.protocol.commands.messages import FlushUnsavedBuffer, PollMessages
from borzoi.protocol.commands.offsets import (
    DeleteConsumerOffset,
    GetConsumerOffset,
    StoreConsumerOffset,
)
from borzoi.protocol.commands.request import Request
from borzoi.protocol.commands.sessions import (
    CreatePersonalAccessToken,
    DeletePersonalAccessToken,
    GetPersonalAccessTokens,
    LoginUser,
    LoginWithPersonalAccessToken,
    LogoutUser,
    Register,
)
from borzoi.protocol.commands.streams import (
    CreateStream,
    DeleteStream,
    GetStream,
    GetStreams,
    PurgeStream,
    UpdateStream,
)
from borzoi.protocol.commands.system import (
    DescribeOptions,
    GetClient,
    GetClients,
    GetClusterMetadata,
    GetMe,
    GetSnapshot,
    GetStats,
    OptionScope,
    Ping,
    SnapshotCompression,
    SnapshotType,
)
from borzoi.protocol.commands.topics import (
    CreatePartitions,
    CreateTopic,
    DeletePartitions,
    DeleteSegments,
    DeleteTopic,
    GetTopic,
    GetTopics,
    PurgeTopic,
    UpdateTopic,
)
from borzoi.protocol.commands.users import (
    ChangePassword,
    CreateUser,
    DeleteUser,
    GetUser,
    GetUsers,
    UpdatePermissions,
    UpdateUser,
)
from borzoi.protocol.send_messages import SendMessages

Command: TypeAlias = Request | SendMessages
