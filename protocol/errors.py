"""What can go wrong, one class per status number of the wire.

Raised anywhere; turned into bytes in one place, the session. A class registers itself in
BY_STATUS by being declared, so a number cannot be given out twice. Statuses that only clients
or other servers produce are here as well: a client of ours must be able to name them.

A class without `says` is described by the words of its own name.
"""

import re
from typing import ClassVar, Final

BY_STATUS: Final[dict[int, type["BrokerError"]]] = {}


class BrokerError(Exception):
    """A request failed in a way that has a status number; `detail` is for humans only."""

    status: ClassVar[int] = 1
    says: ClassVar[str] = "the request failed"

    def __init_subclass__(cls, *, status: int, says: str = "") -> None:
        if status in BY_STATUS:
            raise TypeError(f"status {status} is already {BY_STATUS[status].__name__}")
        cls.status = status
        cls.says = says or " ".join(re.findall("[A-Z][a-z0-9]*", cls.__name__)).lower()
        BY_STATUS[status] = cls

    def __init__(self, detail: str = "") -> None:
        super().__init__(detail or self.says)


def error_for(status: int) -> BrokerError:
    """The error a response with this status stands for; numbers nobody assigned are generic."""
    found = BY_STATUS.get(status)
    return found() if found else GenericError(f"the server answered with unknown status {status}")


class GenericError(BrokerError, status=1, says="the request failed and no better status fits"): ...


class InvalidConfiguration(
    BrokerError,
    status=2,
    says="a setting cannot be used as it is written",
): ...


class InvalidCommand(
    BrokerError,
    status=3,
    says="this command is not known, or its payload cannot be read",
): ...


class InvalidFormat(
    BrokerError,
    status=4,
    says="the payload can be read but breaks a rule of its layout",
): ...


class FeatureUnavailable(BrokerError, status=5, says="this feature is switched off here"): ...


class InvalidIdentifier(
    BrokerError,
    status=6,
    says="an identifier is neither a number of four bytes nor a name",
): ...


class InvalidVersion(BrokerError, status=7, says="the version text cannot be understood"): ...


class Disconnected(BrokerError, status=8, says="the server is closing this connection"): ...


class CannotEstablishConnection(
    BrokerError,
    status=9,
    says="no connection to the server could be made",
): ...


class CannotCreateBaseDirectory(BrokerError, status=10): ...


class CannotCreateRuntimeDirectory(BrokerError, status=11): ...


class CannotRemoveRuntimeDirectory(BrokerError, status=12): ...


class CannotCreateStateDirectory(BrokerError, status=13): ...


class StateFileNotFound(BrokerError, status=14): ...


class StateFileCorrupted(BrokerError, status=15): ...


class InvalidStateEntryChecksum(
    BrokerError,
    status=16,
    says="an entry of the metadata log does not match its checksum",
): ...


class CannotOpenDatabase(BrokerError, status=19): ...


class ResourceNotFound(BrokerError, status=20, says="no user or token of that identity exists"): ...


class CannotCloseWebSocketConnection(BrokerError, status=21): ...


class StaleClient(
    BrokerError,
    status=30,
    says="the session was dropped because its heartbeats stopped",
): ...


class TcpError(
    BrokerError,
    status=31,
    says="reading from or writing to the TCP connection failed",
): ...


class QuicError(
    BrokerError,
    status=32,
    says="reading from or writing to the QUIC connection failed",
): ...


class InvalidServerAddress(BrokerError, status=33): ...


class InvalidClientAddress(BrokerError, status=34): ...


class InvalidIpAddress(BrokerError, status=35): ...


class HttpError(BrokerError, status=36): ...


class Unauthenticated(BrokerError, status=40, says="log in first"): ...


class Unauthorized(BrokerError, status=41, says="the user lacks the permission for this"): ...


class InvalidCredentials(BrokerError, status=42, says="the name or the password is wrong"): ...


class InvalidUsername(BrokerError, status=43, says="a username has 3 to 50 bytes"): ...


class InvalidPassword(BrokerError, status=44, says="a password has 3 to 100 bytes"): ...


class InvalidUserStatus(BrokerError, status=45, says="a user is either active or inactive"): ...


class UserAlreadyExists(BrokerError, status=46, says="another user has this name"): ...


class UserInactive(BrokerError, status=47, says="this user is switched off"): ...


class CannotDeleteUser(BrokerError, status=48, says="the root user cannot be deleted"): ...


class CannotChangePermissions(
    BrokerError,
    status=49,
    says="the permissions of the root user cannot be changed",
): ...


class InvalidPersonalAccessTokenName(
    BrokerError,
    status=50,
    says="a token name has 3 to 30 bytes",
): ...


class PersonalAccessTokenAlreadyExists(
    BrokerError,
    status=51,
    says="this user already has a token of that name",
): ...


class PersonalAccessTokensLimitReached(
    BrokerError,
    status=52,
    says="this user has as many tokens as allowed",
): ...


class InvalidPersonalAccessToken(BrokerError, status=53): ...


class PersonalAccessTokenExpired(
    BrokerError,
    status=54,
    says="the token was valid once but its time has run out",
): ...


class UsersLimitReached(BrokerError, status=55, says="every user id is in use"): ...


class NotConnected(BrokerError, status=61, says="this client has no connection at the moment"): ...


class ClientShutdown(
    BrokerError,
    status=63,
    says="this client was closed and cannot be used again",
): ...


class InvalidTlsDomain(BrokerError, status=64): ...


class InvalidTlsCertificatePath(BrokerError, status=65): ...


class InvalidTlsCertificate(BrokerError, status=66): ...


class FailedToAddCertificate(BrokerError, status=67): ...


class InvalidEncryptionKey(BrokerError, status=70): ...


class CannotEncryptData(BrokerError, status=71): ...


class CannotDecryptData(BrokerError, status=72): ...


class InvalidJwtAlgorithm(BrokerError, status=73): ...


class InvalidJwtSecret(BrokerError, status=74): ...


class JwtMissing(BrokerError, status=75): ...


class CannotGenerateJwt(BrokerError, status=76): ...


class AccessTokenMissing(BrokerError, status=77): ...


class InvalidAccessToken(BrokerError, status=78): ...


class CannotFetchJwks(BrokerError, status=79): ...


class InvalidSizeBytes(BrokerError, status=80, says="a size is outside of what is acceptable"): ...


class InvalidUtf8(BrokerError, status=81, says="the bytes are not UTF-8 text"): ...


class InvalidNumberEncoding(BrokerError, status=82): ...


class InvalidBooleanValue(BrokerError, status=83): ...


class InvalidNumberValue(BrokerError, status=84): ...


class ClientNotFound(BrokerError, status=100, says="no session has this client id"): ...


class InvalidClientId(BrokerError, status=101, says="0 is not the id of a client"): ...


class ConnectionClosed(BrokerError, status=206): ...


class CannotParseHeaderKind(BrokerError, status=209): ...


class HttpResponseError(BrokerError, status=300): ...


class InvalidHttpRequest(BrokerError, status=301): ...


class InvalidJsonResponse(BrokerError, status=302): ...


class InvalidBytesResponse(BrokerError, status=303): ...


class EmptyResponse(BrokerError, status=304, says="the server answered with no bytes at all"): ...


class CannotCreateEndpoint(BrokerError, status=305): ...


class CannotParseUrl(BrokerError, status=306): ...


class WebSocketError(BrokerError, status=400): ...


class WebSocketConnectionError(BrokerError, status=401): ...


class WebSocketCloseError(BrokerError, status=402): ...


class WebSocketReceiveError(BrokerError, status=403): ...


class WebSocketSendError(BrokerError, status=404): ...


class CannotCreateStreamsDirectory(BrokerError, status=1000): ...


class CannotCreateStreamDirectory(BrokerError, status=1001): ...


class CannotCreateStreamInfo(BrokerError, status=1002): ...


class CannotUpdateStreamInfo(BrokerError, status=1003): ...


class CannotOpenStreamInfo(BrokerError, status=1004): ...


class CannotReadStreamInfo(BrokerError, status=1005): ...


class CannotCreateStream(BrokerError, status=1006): ...


class CannotDeleteStream(BrokerError, status=1007): ...


class CannotDeleteStreamDirectory(BrokerError, status=1008): ...


class StreamIdNotFound(BrokerError, status=1009, says="no such stream"): ...


class StreamNameNotFound(BrokerError, status=1010, says="no stream has this name"): ...


class StreamDirectoryNotFound(BrokerError, status=1011): ...


class StreamNameAlreadyExists(BrokerError, status=1012, says="another stream has this name"): ...


class InvalidStreamName(
    BrokerError,
    status=1013,
    says="this text cannot be the name of a stream",
): ...


class InvalidStreamId(BrokerError, status=1014): ...


class CannotReadStreams(BrokerError, status=1015): ...


class InvalidTopicSize(
    BrokerError,
    status=1019,
    says="a topic cannot be limited to less than one segment",
): ...


class CannotCreateTopicsDirectory(BrokerError, status=2000): ...


class CannotCreateTopicDirectory(BrokerError, status=2001): ...


class CannotCreateTopicInfo(BrokerError, status=2002): ...


class CannotUpdateTopicInfo(BrokerError, status=2003): ...


class CannotOpenTopicInfo(BrokerError, status=2004): ...


class CannotReadTopicInfo(BrokerError, status=2005): ...


class CannotCreateTopic(BrokerError, status=2006): ...


class CannotDeleteTopic(BrokerError, status=2007): ...


class CannotDeleteTopicDirectory(BrokerError, status=2008): ...


class CannotPollTopic(BrokerError, status=2009): ...


class TopicIdNotFound(BrokerError, status=2010, says="no such topic"): ...


class TopicNameNotFound(BrokerError, status=2011, says="no topic of the stream has this name"): ...


class TopicNameAlreadyExists(
    BrokerError,
    status=2013,
    says="another topic of the stream has this name",
): ...


class InvalidTopicName(
    BrokerError,
    status=2014,
    says="this text cannot be the name of a topic",
): ...


class TooManyPartitions(
    BrokerError,
    status=2015,
    says="the number of partitions is outside of the allowed range",
): ...


class InvalidTopicId(BrokerError, status=2016): ...


class CannotReadTopics(BrokerError, status=2017): ...


class InvalidReplicationFactor(BrokerError, status=2018): ...


class InvalidPartitionsCount(
    BrokerError,
    status=2019,
    says="the topic has fewer partitions than that",
): ...


class TopicDirectoryNotFound(BrokerError, status=2020): ...


class CannotCreatePartition(BrokerError, status=3000): ...


class CannotCreatePartitionsDirectory(BrokerError, status=3001): ...


class CannotCreatePartitionDirectory(BrokerError, status=3002): ...


class CannotOpenPartitionLogFile(BrokerError, status=3003): ...


class CannotReadPartitions(BrokerError, status=3004): ...


class CannotDeletePartition(BrokerError, status=3005): ...


class CannotDeletePartitionDirectory(BrokerError, status=3006): ...


class PartitionNotFound(BrokerError, status=3007, says="no such partition"): ...


class NoPartitions(
    BrokerError,
    status=3008,
    says="the topic has no partition to put a message into",
): ...


class TopicFull(BrokerError, status=3009, says="the topic has reached its size limit"): ...


class CannotDeleteConsumerOffsetsDirectory(BrokerError, status=3010): ...


class CannotDeleteConsumerOffsetFile(BrokerError, status=3011): ...


class CannotCreateConsumerOffsetsDirectory(BrokerError, status=3012): ...


class CannotReadConsumerOffsets(BrokerError, status=3020): ...


class ConsumerOffsetNotFound(
    BrokerError,
    status=3021,
    says="this consumer has no stored offset here",
): ...


class NotResolvedConsumer(
    BrokerError,
    status=3022,
    says="the partition does not belong to this member of the group",
): ...


class CannotOpenConsumerOffsetsFile(BrokerError, status=3023): ...


class SegmentNotFound(BrokerError, status=4000): ...


class SegmentClosed(BrokerError, status=4001): ...


class InvalidSegmentSize(BrokerError, status=4002): ...


class CannotCreateSegmentLogFile(BrokerError, status=4003): ...


class CannotCreateSegmentIndexFile(BrokerError, status=4004): ...


class CannotCreateSegmentTimeIndexFile(BrokerError, status=4005): ...


class CannotSaveMessagesToSegment(BrokerError, status=4006): ...


class CannotSaveIndexToSegment(BrokerError, status=4007): ...


class CannotSaveTimeIndexToSegment(BrokerError, status=4008): ...


class InvalidMessagesCount(BrokerError, status=4009, says="a batch holds at least one message"): ...


class CannotAppendMessage(BrokerError, status=4010): ...


class CannotReadMessage(BrokerError, status=4011): ...


class CannotReadMessageId(BrokerError, status=4012): ...


class CannotReadMessageState(BrokerError, status=4013): ...


class CannotReadMessageTimestamp(BrokerError, status=4014): ...


class CannotReadHeadersLength(BrokerError, status=4015): ...


class CannotReadHeadersPayload(BrokerError, status=4016): ...


class TooBigUserHeaders(
    BrokerError,
    status=4017,
    says="the user headers of a message are larger than 100000 bytes",
): ...


class InvalidHeaderKey(
    BrokerError,
    status=4018,
    says="a header key has 1 to 255 bytes that fit its kind",
): ...


class InvalidHeaderValue(
    BrokerError,
    status=4019,
    says="a header value has 1 to 255 bytes that fit its kind",
): ...


class CannotReadMessageLength(BrokerError, status=4020): ...


class CannotReadMessagePayload(BrokerError, status=4021): ...


class TooBigMessagePayload(
    BrokerError,
    status=4022,
    says="the payload of a message is larger than 64000000 bytes",
): ...


class TooManyMessages(BrokerError, status=4023): ...


class EmptyMessagePayload(BrokerError, status=4024, says="a message needs a payload"): ...


class InvalidMessagePayloadLength(
    BrokerError,
    status=4025,
    says="the payload length of a message is wrong",
): ...


class CannotReadMessageChecksum(BrokerError, status=4026): ...


class InvalidMessageChecksum(
    BrokerError,
    status=4027,
    says="a message does not match its checksum",
): ...


class InvalidKeyValueLength(
    BrokerError,
    status=4028,
    says="a partitioning key has 1 to 255 bytes",
): ...


class CommandLengthError(BrokerError, status=4029): ...


class InvalidSegmentsCount(BrokerError, status=4030): ...


class NonZeroOffset(
    BrokerError,
    status=4031,
    says="the index of a sent batch must leave offsets to the server",
): ...


class NonZeroTimestamp(
    BrokerError,
    status=4032,
    says="the index of a sent batch must leave timestamps to the server",
): ...


class MissingIndex(
    BrokerError,
    status=4033,
    says="a message does not lie where the index of its batch says",
): ...


class InvalidIndexesByteSize(BrokerError, status=4034): ...


class InvalidIndexesCount(BrokerError, status=4035): ...


class InvalidMessagesSize(
    BrokerError,
    status=4036,
    says="the messages do not add up to the size of their batch",
): ...


class TooSmallMessage(BrokerError, status=4037, says="a message is shorter than its header"): ...


class InvalidMessageTimestampDelta(BrokerError, status=4038): ...


class InvalidBatchChecksum(BrokerError, status=4039): ...


class InvalidHeaderKind(BrokerError, status=4040, says="a header kind lies between 1 and 15"): ...


class CannotSendMessagesDueToClientDisconnection(BrokerError, status=4050): ...


class BackgroundSendError(BrokerError, status=4051): ...


class BackgroundSendTimeout(BrokerError, status=4052): ...


class BackgroundSendBufferFull(BrokerError, status=4053): ...


class BackgroundWorkerDisconnected(BrokerError, status=4054): ...


class BackgroundSendBufferOverflow(BrokerError, status=4055): ...


class ProducerSendFailed(BrokerError, status=4056): ...


class ProducerClosed(BrokerError, status=4057): ...


class InvalidOffset(
    BrokerError,
    status=4100,
    says="the offset is not one this partition has, or offsets run backwards",
): ...


class InvalidReservedField(
    BrokerError,
    status=4101,
    says="the reserved bytes of a message are not zero",
): ...


class ConsumerGroupIdNotFound(BrokerError, status=5000, says="no such consumer group"): ...


class InvalidConsumerGroupId(BrokerError, status=5002): ...


class ConsumerGroupNameNotFound(
    BrokerError,
    status=5003,
    says="no consumer group of the topic has this name",
): ...


class ConsumerGroupNameAlreadyExists(
    BrokerError,
    status=5004,
    says="another consumer group of the topic has this name",
): ...


class InvalidConsumerGroupName(
    BrokerError,
    status=5005,
    says="this text cannot be the name of a consumer group",
): ...


class ConsumerGroupMemberNotFound(
    BrokerError,
    status=5006,
    says="this session has not joined the consumer group",
): ...


class CannotCreateConsumerGroupInfo(BrokerError, status=5007): ...


class CannotDeleteConsumerGroupInfo(BrokerError, status=5008): ...


class MissingBaseOffsetRetainedMessageBatch(BrokerError, status=6000): ...


class MissingLastOffsetDeltaRetainedMessageBatch(BrokerError, status=6001): ...


class MissingMaxTimestampRetainedMessageBatch(BrokerError, status=6002): ...


class MissingLengthRetainedMessageBatch(BrokerError, status=6003): ...


class MissingPayloadRetainedMessageBatch(BrokerError, status=6004): ...


class CannotReadBatchBaseOffset(BrokerError, status=7000): ...


class CannotReadBatchLength(BrokerError, status=7001): ...


class CannotReadLastOffsetDelta(BrokerError, status=7002): ...


class CannotReadMaxTimestamp(BrokerError, status=7003): ...


class CannotReadBatchPayload(BrokerError, status=7004): ...


class InvalidConnectionString(BrokerError, status=8000): ...


class SnapshotFileCompletionFailed(
    BrokerError,
    status=9000,
    says="the snapshot could not be put together",
): ...


class CannotSerializeResource(BrokerError, status=10000): ...


class CannotDeserializeResource(BrokerError, status=10001): ...


class CannotReadFile(BrokerError, status=10002): ...


class CannotReadFileMetadata(BrokerError, status=10003): ...


class CannotSeekFile(BrokerError, status=10004): ...


class CannotAppendToFile(BrokerError, status=10005): ...


class CannotWriteToFile(BrokerError, status=10006): ...


class CannotOverwriteFile(BrokerError, status=10007): ...


class CannotDeleteFile(BrokerError, status=10008): ...


class CannotSyncFile(BrokerError, status=10009): ...


class CannotReadIndexOffset(BrokerError, status=10010): ...


class CannotReadIndexPosition(
    BrokerError,
    status=10011,
    says="the last index position lies before the one ahead of it",
): ...


class CannotReadIndexTimestamp(BrokerError, status=10012): ...


class TimestampOutOfRange(BrokerError, status=10013): ...


class ShardNotFound(BrokerError, status=11000, says="no shard owns this partition"): ...


class ShardCommunicationError(
    BrokerError,
    status=11001,
    says="the shard that owns the partition could not be asked",
): ...


class CannotBindToSocket(BrokerError, status=12000): ...


class TaskTimeout(BrokerError, status=12001, says="an inner task did not finish in time"): ...


class IoError(BrokerError, status=13000, says="reading from or writing to a disk failed"): ...
