"""The messages and enumerations of the Liftbridge API, as classes of protobuf.

Made at import from the table below, in a pool of their own: a process that has the official
definitions loaded as well keeps both. Always: a field that is not in the table is ignored on
receipt, as proto3 says.
"""

from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

PACKAGE: Final = "proto"
SERVICE: Final = f"{PACKAGE}.API"

ENUMS: Final = """
StartPosition: NEW_ONLY OFFSET EARLIEST LATEST TIMESTAMP
StopPosition: STOP_ON_CANCEL STOP_OFFSET STOP_LATEST STOP_TIMESTAMP
AckPolicy: LEADER ALL NONE
ActivityStreamOp: CREATE_STREAM DELETE_STREAM PAUSE_STREAM RESUME_STREAM SET_STREAM_READONLY \
JOIN_CONSUMER_GROUP LEAVE_CONSUMER_GROUP
PublishAsyncError.Code: UNKNOWN BAD_REQUEST NOT_FOUND INTERNAL READONLY INCORRECT_OFFSET \
ENCRYPTION_FAILED PERMISSION_DENIED
StreamMetadata.Error: OK UNKNOWN_STREAM
ConsumerGroupMetadata.Error: OK UNKNOWN_GROUP
Ack.Error: OK UNKNOWN INCORRECT_OFFSET TOO_LARGE ENCRYPTION
"""
"""Name: values from 0 on. Those of a message stand behind its name."""

MESSAGES: Final = """
NullableInt64: 1 value int64
NullableInt32: 1 value int32
NullableBool: 1 value bool
CreateStreamRequest: 1 subject string, 2 name string, 3 group string, 4 replicationFactor int32, \
5 partitions int32, 6 retentionMaxBytes NullableInt64, 7 retentionMaxMessages NullableInt64, \
8 retentionMaxAge NullableInt64, 9 cleanerInterval NullableInt64, \
10 segmentMaxBytes NullableInt64, 11 segmentMaxAge NullableInt64, \
12 compactMaxGoroutines NullableInt32, 13 compactEnabled NullableBool, \
14 autoPauseTime NullableInt64, 15 autoPauseDisableIfSubscribers NullableBool, \
16 minIsr NullableInt32, 17 optimisticConcurrencyControl NullableBool, 18 encryption NullableBool
CreateStreamResponse:
DeleteStreamRequest: 1 name string
DeleteStreamResponse:
PauseStreamRequest: 1 name string, 2 partitions int32[], 3 resumeAll bool
PauseStreamResponse:
SetStreamReadonlyRequest: 1 name string, 2 partitions int32[], 3 readonly bool
SetStreamReadonlyResponse:
Consumer: 1 groupId string, 2 groupEpoch uint64, 3 consumerId string
SubscribeRequest: 1 stream string, 2 partition int32, 3 startPosition StartPosition, \
4 startOffset int64, 5 startTimestamp int64, 6 readISRReplica bool, 7 resume bool, \
8 stopPosition StopPosition, 9 stopOffset int64, 10 stopTimestamp int64, 11 consumer Consumer
FetchMetadataRequest: 1 streams string[], 2 groups string[]
FetchMetadataResponse: 1 brokers Broker[], 2 streamMetadata StreamMetadata[], \
3 groupMetadata ConsumerGroupMetadata[]
FetchPartitionMetadataRequest: 1 stream string, 2 partition int32
FetchPartitionMetadataResponse: 1 metadata PartitionMetadata
PublishRequest: 1 key bytes, 2 value bytes, 3 stream string, 4 partition int32, \
5 headers map:string:bytes, 6 ackInbox string, 7 correlationId string, 8 ackPolicy AckPolicy, \
9 expectedOffset int64
PublishAsyncError: 1 code PublishAsyncError.Code, 2 message string
PublishResponse: 1 ack Ack, 2 asyncError PublishAsyncError, 3 correlationId string
PublishToSubjectRequest: 1 key bytes, 2 value bytes, 3 subject string, \
4 headers map:string:bytes, 5 ackInbox string, 6 correlationId string, 7 ackPolicy AckPolicy
PublishToSubjectResponse: 1 ack Ack
SetCursorRequest: 1 stream string, 2 partition int32, 3 cursorId string, 4 offset int64
SetCursorResponse:
FetchCursorRequest: 1 stream string, 2 partition int32, 3 cursorId string
FetchCursorResponse: 1 offset int64
JoinConsumerGroupRequest: 1 groupId string, 2 consumerId string, 3 streams string[]
JoinConsumerGroupResponse: 1 coordinator string, 2 epoch uint64, 3 consumerTimeout int64, \
4 coordinatorTimeout int64
LeaveConsumerGroupRequest: 1 groupId string, 2 consumerId string
LeaveConsumerGroupResponse:
FetchConsumerGroupAssignmentsRequest: 1 groupId string, 2 consumerId string, 3 epoch uint64
PartitionAssignment: 1 stream string, 2 partitions int32[]
FetchConsumerGroupAssignmentsResponse: 1 epoch uint64, 2 assignments PartitionAssignment[]
ReportConsumerGroupCoordinatorRequest: 1 groupId string, 2 consumerId string, \
3 coordinator string, 4 epoch uint64
ReportConsumerGroupCoordinatorResponse:
Broker: 1 id string, 2 host string, 3 port int32, 4 partitionCount int32, 5 leaderCount int32
StreamMetadata: 1 name string, 2 subject string, 3 error StreamMetadata.Error, \
4 partitions map:int32:PartitionMetadata, 5 creationTimestamp int64
ConsumerGroupMetadata: 1 groupId string, 2 error ConsumerGroupMetadata.Error, \
3 coordinator string, 4 epoch uint64
PartitionEventTimestamps: 1 firstTimestamp int64, 2 latestTimestamp int64
PartitionMetadata: 1 id int32, 2 leader string, 3 replicas string[], 4 isr string[], \
5 highWatermark int64, 6 newestOffset int64, 7 paused bool, 8 readonly bool, \
9 messagesReceivedTimestamps PartitionEventTimestamps, \
10 pauseTimestamps PartitionEventTimestamps, 11 readonlyTimestamps PartitionEventTimestamps
Message: 1 offset int64, 2 key bytes, 3 value bytes, 4 timestamp int64, 5 stream string, \
6 partition int32, 7 subject string, 8 replySubject string, 9 headers map:string:bytes, \
10 ackInbox string, 11 correlationId string, 12 ackPolicy AckPolicy
Ack: 1 stream string, 2 partitionSubject string, 3 msgSubject string, 4 offset int64, \
5 ackInbox string, 6 correlationId string, 7 ackPolicy AckPolicy, 8 receptionTimestamp int64, \
9 commitTimestamp int64, 10 ackError Ack.Error
CreateStreamOp: 1 stream string, 2 partitions int32[]
DeleteStreamOp: 1 stream string
PauseStreamOp: 1 stream string, 2 partitions int32[], 3 resumeAll bool
ResumeStreamOp: 1 stream string, 2 partitions int32[]
SetStreamReadonlyOp: 1 stream string, 2 partitions int32[], 3 readonly bool
JoinConsumerGroupOp: 1 groupId string, 2 consumerId string, 3 streams string[]
LeaveConsumerGroupOp: 1 groupId string, 2 consumerId string, 3 expired bool
ActivityStreamEvent: 1 id uint64, 2 op ActivityStreamOp, 3 createStreamOp CreateStreamOp, \
4 deleteStreamOp DeleteStreamOp, 5 pauseStreamOp PauseStreamOp, 6 resumeStreamOp ResumeStreamOp, \
7 setStreamReadonlyOp SetStreamReadonlyOp, 8 joinConsumerGroupOp JoinConsumerGroupOp, \
9 leaveConsumerGroupOp LeaveConsumerGroupOp
"""
"""Name: number, field and type, by commas. `T[]` is repeated, `map:K:V` a map."""

Field: Final = descriptor_pb2.FieldDescriptorProto
SCALARS: Final = {
    "bool": Field.TYPE_BOOL,
    "bytes": Field.TYPE_BYTES,
    "int32": Field.TYPE_INT32,
    "int64": Field.TYPE_INT64,
    "string": Field.TYPE_STRING,
    "uint64": Field.TYPE_UINT64,
}


def _rows(table: str) -> list[tuple[str, str]]:
    named = (line.partition(":") for line in table.strip().splitlines())
    return [(name, rest.strip()) for name, _, rest in named]


def _add_field(of: Any, enums: set[str], number: int, name: str, kind: str) -> None:
    if kind.startswith("map:"):
        _, key, value = kind.split(":")
        entry = of.nested_type.add(name=f"{name[0].upper()}{name[1:]}Entry")
        entry.options.map_entry = True
        _add_field(entry, enums, 1, "key", key)
        _add_field(entry, enums, 2, "value", value)
        kind = f"{of.name}.{entry.name}[]"
    field = of.field.add(name=name, number=number, label=Field.LABEL_OPTIONAL)
    if kind.endswith("[]"):
        kind = kind[:-2]
        field.label = Field.LABEL_REPEATED
    if kind in SCALARS:
        field.type = SCALARS[kind]
    else:
        field.type = Field.TYPE_ENUM if kind in enums else Field.TYPE_MESSAGE
        field.type_name = f".{PACKAGE}.{kind}"


def _file() -> Any:
    file = descriptor_pb2.FileDescriptorProto(
        name="borzoi/liftbridge.proto", package=PACKAGE, syntax="proto3"
    )
    enums = dict(_rows(ENUMS))
    of_message: dict[str, Any] = {}
    for name, fields in _rows(MESSAGES):
        of_message[name] = message = file.message_type.add(name=name)
        for field in filter(None, fields.split(", ")):
            at, field_name, kind = field.split()
            _add_field(message, set(enums), int(at), field_name, kind)
    for name, values in enums.items():
        outer, _, inner = name.rpartition(".")
        enum = (of_message[outer] if outer else file).enum_type.add(name=inner)
        for number, value in enumerate(values.split()):
            enum.value.add(name=value, number=number)
    return file


def _classes() -> dict[str, Any]:
    pool = descriptor_pool.DescriptorPool()
    pool.Add(_file())
    names = [name for name, _ in _rows(MESSAGES)]
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{PACKAGE}.{name}"))
        for name in names
    }


CLASSES: Final = _classes()
"""All of them, by name."""


class AckPolicy:
    """When a publish is acknowledged."""

    LEADER: Final = 0
    ALL: Final = 1
    NONE: Final = 2


class AckError:
    """Why a message was not stored, in an ack."""

    OK: Final = 0
    UNKNOWN: Final = 1
    INCORRECT_OFFSET: Final = 2
    TOO_LARGE: Final = 3
    ENCRYPTION: Final = 4


class AsyncError:
    """Why a message was not stored, in an answer of PublishAsync."""

    UNKNOWN: Final = 0
    BAD_REQUEST: Final = 1
    NOT_FOUND: Final = 2
    INTERNAL: Final = 3
    READONLY: Final = 4
    INCORRECT_OFFSET: Final = 5
    ENCRYPTION_FAILED: Final = 6
    PERMISSION_DENIED: Final = 7


class StartPosition:
    """Where a subscription begins."""

    NEW_ONLY: Final = 0
    OFFSET: Final = 1
    EARLIEST: Final = 2
    LATEST: Final = 3
    TIMESTAMP: Final = 4


class StopPosition:
    """Where a subscription ends."""

    ON_CANCEL: Final = 0
    OFFSET: Final = 1
    LATEST: Final = 2
    TIMESTAMP: Final = 3


Ack: Any = CLASSES["Ack"]
Broker: Any = CLASSES["Broker"]
ConsumerGroupMetadata: Any = CLASSES["ConsumerGroupMetadata"]
CreateStreamRequest: Any = CLASSES["CreateStreamRequest"]
FetchMetadataResponse: Any = CLASSES["FetchMetadataResponse"]
Message: Any = CLASSES["Message"]
PartitionEventTimestamps: Any = CLASSES["PartitionEventTimestamps"]
PartitionMetadata: Any = CLASSES["PartitionMetadata"]
PublishRequest: Any = CLASSES["PublishRequest"]
PublishResponse: Any = CLASSES["PublishResponse"]
StreamMetadata: Any = CLASSES["StreamMetadata"]
