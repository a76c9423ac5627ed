"""Every request as a value: one frozen dataclass per command, with its two codecs beside it.

Gathered here so that handlers and clients can import any of them from one place.
"""

from typing import TypeAlias

from borzoi.protocol.commands.groups import (
    CreateConsumerGroup,
    DeleteConsumerGroup,
    GetConsumerGroup,
    GetConsumerGroups,
    JoinConsumerGroup,
    LeaveConsumerGroup,
)
from borzoi.protocol.commands.messages import (
    FlushUnsavedBuffer,
    PollMessages,
)
from borzoi.protocol.commands.offsets import (
    DeleteConsumerOffset,
    GetConsumerOffset,
    StoreConsumerOffset,
)
from borzoi.protocol.commands.sessions import (
    CreatePersonalAccessToken,
    DeletePersonalAccessToken,
    GetPersonalAccessTokens,
    LoginUser,
    LoginWithPersonalAccessToken,
    LogoutUser,
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
    GetClient,
    GetClients,
    GetClusterMetadata,
    GetMe,
    GetSnapshot,
    GetStats,
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

Command: TypeAlias = (
    Ping
    | GetStats
    | GetSnapshot
    | GetClusterMetadata
    | GetMe
    | GetClient
    | GetClients
    | GetUser
    | GetUsers
    | CreateUser
    | DeleteUser
    | UpdateUser
    | UpdatePermissions
    | ChangePassword
    | LoginUser
    | LogoutUser
    | GetPersonalAccessTokens
    | CreatePersonalAccessToken
    | DeletePersonalAccessToken
    | LoginWithPersonalAccessToken
    | PollMessages
    | SendMessages
    | FlushUnsavedBuffer
    | GetConsumerOffset
    | StoreConsumerOffset
    | DeleteConsumerOffset
    | GetStream
    | GetStreams
    | CreateStream
    | DeleteStream
    | UpdateStream
    | PurgeStream
    | GetTopic
    | GetTopics
    | CreateTopic
    | DeleteTopic
    | UpdateTopic
    | PurgeTopic
    | CreatePartitions
    | DeletePartitions
    | DeleteSegments
    | GetConsumerGroup
    | GetConsumerGroups
    | CreateConsumerGroup
    | DeleteConsumerGroup
    | JoinConsumerGroup
    | LeaveConsumerGroup
)

__all__ = [
    "ChangePassword",
    "Command",
    "CreateConsumerGroup",
    "CreatePartitions",
    "CreatePersonalAccessToken",
    "CreateStream",
    "CreateTopic",
    "CreateUser",
    "DeleteConsumerGroup",
    "DeleteConsumerOffset",
    "DeletePartitions",
    "DeletePersonalAccessToken",
    "DeleteSegments",
    "DeleteStream",
    "DeleteTopic",
    "DeleteUser",
    "FlushUnsavedBuffer",
    "GetClient",
    "GetClients",
    "GetClusterMetadata",
    "GetConsumerGroup",
    "GetConsumerGroups",
    "GetConsumerOffset",
    "GetMe",
    "GetPersonalAccessTokens",
    "GetSnapshot",
    "GetStats",
    "GetStream",
    "GetStreams",
    "GetTopic",
    "GetTopics",
    "GetUser",
    "GetUsers",
    "JoinConsumerGroup",
    "LeaveConsumerGroup",
    "LoginUser",
    "LoginWithPersonalAccessToken",
    "LogoutUser",
    "Ping",
    "PollMessages",
    "PurgeStream",
    "PurgeTopic",
    "SendMessages",
    "SnapshotCompression",
    "SnapshotType",
    "StoreConsumerOffset",
    "UpdatePermissions",
    "UpdateStream",
    "UpdateTopic",
    "UpdateUser",
]
