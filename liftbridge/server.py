"""The gRPC service `proto.API`: its methods, each from a request to an answer or a status.

A table says which method is which. Whom a call stands for is known before its method runs
(`Identify`); errors of the ports become statuses here, in one place.
"""

from collections.abc import Awaitable, Callable
from typing import Any, Final, Protocol

from grpclib.const import Cardinality, Handler
from grpclib.server import Stream

from borzoi.liftbridge.bridge import BROKER_ID, RESERVED_NAMES, Bridge
from borzoi.liftbridge.calls import Call
from borzoi.liftbridge.cursors import cursor_key
from borzoi.liftbridge.describing import Describing
from borzoi.liftbridge.groups import Assignments, assignments
from borzoi.liftbridge.ports import (
    Action,
    AlreadyThere,
    GroupView,
    NewStream,
    NoGroup,
    NotAMember,
    PlaceGone,
    PortError,
    User,
)
from borzoi.liftbridge.publish_async import AsyncCall
from borzoi.liftbridge.publishing import NONE_REFUSED, Publishing, new_inbox
from borzoi.liftbridge.refusals import invalid, not_found, precondition, refusal
from borzoi.liftbridge.schema import CLASSES, SERVICE, AckPolicy
from borzoi.liftbridge.settings import given_settings
from borzoi.liftbridge.stored import TooLarge
from borzoi.liftbridge.subjects import (
    group_problem,
    inbox_problem,
    is_pattern,
    publish_problem,
    subject_problem,
)
from borzoi.liftbridge.subscription import Subscription

NAME_SIZE_MAX: Final = 255
PARTITIONS_MAX: Final = 1000
GROUP_ID_SIZE_MAX: Final = 255
NAMES_MAX: Final = 10_000
GROUPS_KEPT_MAX: Final = 1000
STREAMS_OF_MEMBER_MAX: Final = 1000

CONSUMER_TIMEOUT_S: Final = 15
COORDINATOR_TIMEOUT_S: Final = 15
SECOND_NS: Final = 1_000_000_000

Identify = Callable[[Call], Awaitable[User]]
"""The user that a call stands for; GRPCError if there is none."""


class Method(Protocol):
    """A method of the API."""

    async def __call__(self, call: Call, user: User) -> None:
        """Answer a call of a user."""


class Api:
    """The methods, on one shard."""

    def __init__(
        self, bridge: Bridge, publishing: Publishing, describing: Describing, identify: Identify
    ) -> None:
        self._bridge = bridge
        self._store = bridge.store
        self._publishing = publishing
        self._describing = describing
        self._identify = identify
        self._assignments: dict[str, tuple[int, Assignments]] = {}

    def __mapping__(self) -> dict[str, Handler]:
        """The table, as grpclib wants it."""
        unary, streamed = Cardinality.UNARY_UNARY, Cardinality.UNARY_STREAM
        return {
            **self._row("CreateStream", unary, self._create_stream),
            **self._row("DeleteStream", unary, self._delete_stream),
            **self._row("PauseStream", unary, self._pause_stream),
            **self._row("SetStreamReadonly", unary, self._set_stream_readonly),
            **self._row("Subscribe", streamed, self._subscribe, answer="Message"),
            **self._row("FetchMetadata", unary, self._fetch_metadata),
            **self._row("FetchPartitionMetadata", unary, self._fetch_partition_metadata),
            **self._row("Publish", unary, self._publish),
            **self._row(
                "PublishAsync", Cardinality.STREAM_STREAM, self._publish_async, request="Publish"
            ),
            **self._row("PublishToSubject", unary, self._publish_to_subject),
            **self._row("SetCursor", unary, self._set_cursor),
            **self._row("FetchCursor", unary, self._fetch_cursor),
            **self._row("JoinConsumerGroup", unary, self._join_group),
            **self._row("LeaveConsumerGroup", unary, self._leave_group),
            **self._row("FetchConsumerGroupAssignments", unary, self._fetch_assignments),
            **self._row("ReportConsumerGroupCoordinator", unary, self._report_coordinator),
        }

    def _row(
        self,
        name: str,
        cardinality: Cardinality,
        method: Method,
        *,
        request: str = "",
        answer: str = "",
    ) -> dict[str, Handler]:
        async def handle(stream: Stream[Any, Any]) -> None:
            call = Call(stream)
            try:
                await method(call, await self._identify(call))
            except (PortError, TooLarge) as error:
                raise refusal(error) from error
            finally:
                call.close()

        asked = CLASSES[f"{request or name}Request"]
        given = CLASSES[answer or f"{request or name}Response"]
        return {f"/{SERVICE}/{name}": Handler(handle, cardinality, asked, given)}

    # Streams.

    async def _create_stream(self, call: Call, user: User) -> None:
        request = await call.request(CLASSES["CreateStreamRequest"])
        new = self._new_stream(request)
        self._store.require(user, Action.CREATE)
        try:
            await self._store.create(user, new)
        except AlreadyThere:
            raise refusal(AlreadyThere("stream already exists")) from None
        await call.answer(CLASSES["CreateStreamResponse"]())

    def _new_stream(self, request: Any) -> NewStream:
        partitions = request.partitions or 1
        settings = given_settings(request)
        if not request.name:
            raise invalid("Name cannot be empty")
        if request.name in RESERVED_NAMES:
            raise invalid(f"Name {request.name} is reserved")
        if len(request.name.encode()) > NAME_SIZE_MAX:
            raise invalid(f"Name has more than {NAME_SIZE_MAX} bytes")
        if not request.subject:
            raise invalid("Subject cannot be empty")
        if not 1 <= partitions <= PARTITIONS_MAX:
            raise invalid(f"{partitions} partitions: needs 1 to {PARTITIONS_MAX}")
        problem = subject_problem(request.subject, partitions) or group_problem(request.group)
        if problem is not None:
            raise invalid(f"Subject is invalid: {problem}")
        if request.replicationFactor not in (-1, 0, 1):
            raise invalid(f"Invalid replicationFactor {request.replicationFactor}, cluster size 1")
        if settings.get("encryption") and not self._store.encrypts:
            raise precondition("encryption: the broker has no key, see system.encryption")
        return NewStream(request.name, request.subject, request.group, partitions, settings)

    async def _delete_stream(self, call: Call, user: User) -> None:
        name = (await call.request(CLASSES["DeleteStreamRequest"])).name
        if name in RESERVED_NAMES:
            raise invalid(f"Name {name} is reserved")
        self._known(name)
        self._bridge.require(user, Action.DELETE, name)
        try:
            await self._store.delete(user, name)
        except PlaceGone:
            raise not_found("No such stream") from None
        await call.answer(CLASSES["DeleteStreamResponse"]())

    async def _pause_stream(self, call: Call, user: User) -> None:
        request = await call.request(CLASSES["PauseStreamRequest"])
        partitions = self._partitions(user, request)
        await self._store.pause(user, request.name, partitions, request.resumeAll)
        await call.answer(CLASSES["PauseStreamResponse"]())

    async def _set_stream_readonly(self, call: Call, user: User) -> None:
        request = await call.request(CLASSES["SetStreamReadonlyRequest"])
        partitions = self._partitions(user, request)
        await self._store.set_readonly(user, request.name, partitions, request.readonly)
        await call.answer(CLASSES["SetStreamReadonlyResponse"]())

    def _partitions(self, user: User, request: Any) -> list[int]:
        """The partitions that a request names, all if it names none."""
        view = self._known(request.name)
        if len(request.partitions) > PARTITIONS_MAX:
            raise invalid(f"{len(request.partitions)} partitions: needs at most {PARTITIONS_MAX}")
        for number in request.partitions:
            if not 0 <= number < view.partitions:
                raise not_found(f"No such partition: {number}")
        self._bridge.require(user, Action.CHANGE, request.name)
        return sorted(set(request.partitions)) or list(range(view.partitions))

    def _known(self, name: str) -> Any:
        try:
            return self._bridge.stream(name)
        except PlaceGone:
            raise not_found("No such stream") from None

    # Messages.

    async def _subscribe(self, call: Call, user: User) -> None:
        request = await call.request(CLASSES["SubscribeRequest"])
        await Subscription(self._bridge, call, user, request).run()

    async def _publish(self, call: Call, user: User) -> None:
        request = await call.request(CLASSES["PublishRequest"])
        if not request.stream:
            raise invalid("No stream provided")
        view = self._bridge.stream(request.stream)
        if view.checks_offsets and request.ackPolicy == AckPolicy.NONE:
            raise invalid(NONE_REFUSED)
        ack = await self._publishing.publish(user, request, request.ackInbox or new_inbox())
        answer = CLASSES["PublishResponse"]()
        if call.has_deadline and request.ackPolicy != AckPolicy.NONE:
            answer.ack.CopyFrom(ack)
            answer.correlationId = request.correlationId
        await call.answer(answer)

    async def _publish_async(self, call: Call, user: User) -> None:
        await AsyncCall(self._publishing, call, user).run()

    async def _publish_to_subject(self, call: Call, user: User) -> None:
        request = await call.request(CLASSES["PublishToSubjectRequest"])
        if (problem := publish_problem(request.subject)) is not None:
            raise invalid(f"Subject is invalid: {problem}")
        inbox = request.ackInbox or new_inbox()
        if (problem := inbox_problem(inbox)) is not None or is_pattern(inbox):
            raise invalid(f"AckInbox is invalid: {problem or 'it is a pattern'}")
        waits = call.has_deadline and request.ackPolicy != AckPolicy.NONE
        ack = await self._publishing.publish_to_subject(user, request, inbox, waits=waits)
        answer = CLASSES["PublishToSubjectResponse"]()
        if waits:
            if ack is None:
                await call.until_deadline()
            answer.ack.CopyFrom(ack)
        await call.answer(answer)

    # What is known of streams.

    async def _fetch_metadata(self, call: Call, user: User) -> None:
        request = await call.request(CLASSES["FetchMetadataRequest"])
        if len(request.streams) + len(request.groups) > NAMES_MAX:
            raise invalid(f"more than {NAMES_MAX} names of streams and groups")
        found = await self._describing.metadata(user, request.streams, request.groups)
        await call.answer(found)

    async def _fetch_partition_metadata(self, call: Call, user: User) -> None:
        request = await call.request(CLASSES["FetchPartitionMetadataRequest"])
        try:
            found = await self._describing.partition(user, request.stream, request.partition)
        except PlaceGone:
            raise not_found("partition not found") from None
        await call.answer(CLASSES["FetchPartitionMetadataResponse"](metadata=found))

    # Cursors.

    async def _set_cursor(self, call: Call, user: User) -> None:
        request = await call.request(CLASSES["SetCursorRequest"])
        key = cursor_key(request.cursorId, request.stream, request.partition)
        self._require_cursor(user, request.stream)
        await self._store.set_cursor(key, request.offset)
        await call.answer(CLASSES["SetCursorResponse"]())

    async def _fetch_cursor(self, call: Call, user: User) -> None:
        request = await call.request(CLASSES["FetchCursorRequest"])
        key = cursor_key(request.cursorId, request.stream, request.partition)
        self._require_cursor(user, request.stream)
        offset = self._store.cursor(key)
        await call.answer(CLASSES["FetchCursorResponse"](offset=-1 if offset is None else offset))

    def _require_cursor(self, user: User, stream: str) -> None:
        """A reader of a stream has cursors of it; where there is none, a reader of all of them."""
        if stream in self._bridge.streams():
            self._bridge.require(user, Action.SUBSCRIBE, stream)
        else:
            self._store.require(user, Action.SUBSCRIBE)

    # Consumer groups.

    async def _join_group(self, call: Call, user: User) -> None:
        request = await call.request(CLASSES["JoinConsumerGroupRequest"])
        _check_member(request)
        streams = sorted(set(request.streams))
        if not streams:
            raise invalid("No streams provided")
        if len(streams) > STREAMS_OF_MEMBER_MAX:
            raise invalid(f"{len(streams)} streams: needs at most {STREAMS_OF_MEMBER_MAX}")
        known = self._bridge.streams()
        for stream in streams:
            if stream not in known:
                raise precondition(f"stream {stream} does not exist")
            self._bridge.require(user, Action.SUBSCRIBE, stream)
        try:
            epoch = await self._store.join(request.groupId, request.consumerId, streams)
        except AlreadyThere:
            raise precondition("consumer is already a member of the consumer group") from None
        await call.answer(
            CLASSES["JoinConsumerGroupResponse"](
                coordinator=BROKER_ID,
                epoch=epoch,
                consumerTimeout=CONSUMER_TIMEOUT_S * SECOND_NS,
                coordinatorTimeout=COORDINATOR_TIMEOUT_S * SECOND_NS,
            )
        )

    async def _leave_group(self, call: Call, user: User) -> None:
        request = await call.request(CLASSES["LeaveConsumerGroupRequest"])
        _check_member(request)
        self._member(user, request.groupId, request.consumerId)
        await self._store.leave(request.groupId, request.consumerId)
        await call.answer(CLASSES["LeaveConsumerGroupResponse"]())

    async def _fetch_assignments(self, call: Call, user: User) -> None:
        request = await call.request(CLASSES["FetchConsumerGroupAssignmentsRequest"])
        _check_member(request)
        group = self._store.group(request.groupId)
        if group is None:
            raise not_found("consumer group does not exist")
        if request.epoch != group.epoch:
            raise precondition("consumer group epoch differs")
        self._member(user, request.groupId, request.consumerId)
        self._store.heard_of(request.groupId, request.consumerId)
        own = self._assigned(request.groupId, group)[request.consumerId]
        answer = CLASSES["FetchConsumerGroupAssignmentsResponse"](epoch=group.epoch)
        for stream, partitions in own.items():
            answer.assignments.add(stream=stream, partitions=partitions)
        await call.answer(answer)

    def _assigned(self, group_id: str, group: GroupView) -> Assignments:
        """Who has what in a group: every member asks for it, and it changes rarely."""
        version = self._store.version()
        known = self._assignments.get(group_id)
        if known is None or known[0] != version:
            counts = {name: view.partitions for name, view in self._bridge.streams().items()}
            if len(self._assignments) >= GROUPS_KEPT_MAX:
                self._assignments.clear()
            known = self._assignments[group_id] = version, assignments(group.members, counts)
        return known[1]

    async def _report_coordinator(self, call: Call, user: User) -> None:
        request = await call.request(CLASSES["ReportConsumerGroupCoordinatorRequest"])
        _check_member(request)
        if not request.coordinator:
            raise invalid("No coordinator provided")
        try:
            self._member(user, request.groupId, request.consumerId)
        except (NoGroup, NotAMember) as error:
            raise precondition(str(error)) from None
        group = self._store.group(request.groupId)
        if group is None or request.coordinator != BROKER_ID or request.epoch != group.epoch:
            raise precondition("coordinator or epoch is not that of the consumer group")
        raise precondition("No other broker can be the coordinator of the consumer group")

    def _member(self, user: User, group_id: str, member: str) -> None:
        """Raise unless there is such a member, and the user may read its streams."""
        group = self._store.group(group_id)
        if group is None:
            raise NoGroup("consumer group does not exist")
        streams = group.members.get(member)
        if streams is None:
            raise NotAMember("consumer is not a member of the consumer group")
        for stream in streams:
            self._bridge.require(user, Action.SUBSCRIBE, stream)


def _check_member(request: Any) -> None:
    if not request.groupId:
        raise invalid("No group id provided")
    if not request.consumerId:
        raise invalid("No consumer id provided")
    for name, text in (("group", request.groupId), ("consumer", request.consumerId)):
        if len(text.encode()) > GROUP_ID_SIZE_MAX:
            raise invalid(f"{name} id has more than {GROUP_ID_SIZE_MAX} bytes")
