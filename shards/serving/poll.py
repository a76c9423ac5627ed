"""POLL_MESSAGES of one session: from the bytes of a request to slices of mapped files.

Owned by the session, one request at a time, by callbacks instead of a task. As with sends, what
the first bytes of a request mean (consumer, stream, topic, partition, permission) is remembered
by those bytes while the metadata does not change; the last 14 bytes say where to begin.
"""

from typing import Final, NamedTuple, Protocol, TypeAlias

from borzoi.protocol.batch import POLL_TAIL, find_poll
from borzoi.protocol.codes import Code
from borzoi.protocol.commands.messages import PollMessages
from borzoi.protocol.errors import BrokerError, InvalidCommand, PartitionNotFound
from borzoi.protocol.generations import encode_command
from borzoi.protocol.identifiers import ConsumerKind, StrategyKind
from borzoi.router.target import Target
from borzoi.shards.handlers.membership import require_registered
from borzoi.shards.handlers.services import Services
from borzoi.shards.metadata.access import require
from borzoi.shards.rings.poll import ANSWER_SIZES, AnswerCut, Poll
from borzoi.shards.serving.group_poll import (
    GroupPoller,
    GroupRoute,
    begin_group_poll,
)
from borzoi.shards.serving.new_life import Named, new_life
from borzoi.shards.serving.reply import Messages
from borzoi.storage.outcome import NO_SLICES, Slices

ROUTES_MAX: Final = 64
OFFSET: Final = int(StrategyKind.OFFSET)
SHORTEST_CUT: Final = min(ANSWER_SIZES.values())
STRATEGIES: Final = frozenset(int(kind) for kind in StrategyKind)


class PollRoute(NamedTuple):
    """What the first bytes of a request mean."""

    target: Target
    partition_id: int
    named: Named
    consumer_kind: int
    consumer: int


PendingPoll: TypeAlias = tuple[PollRoute, Poll]
"""The poll that waits for its answer."""


class Poller(GroupPoller, Protocol):
    """What a poll needs of its session."""

    def learn(self, code: int, payload: memoryview) -> None:
        """The request may tell the generation of the client."""

    def no_login(self, code: int, payload: memoryview) -> BrokerError:
        """Why a request without a login is refused."""


class Polling:
    """The polls of one session."""

    __slots__ = (
        "_in_work", "_poller", "_published", "_retried", "_routes", "_services", "_user",
        "_version",
    )  # fmt: skip

    def __init__(self, services: Services, poller: Poller) -> None:
        self._services = services
        self._poller = poller
        self._routes: dict[bytes, PollRoute | GroupRoute] = {}
        self._published = services.metadata.published_version
        self._version = -1
        self._user: int | None = None
        self._in_work: PendingPoll | None = None
        self._retried = False

    def begin(self, payload: memoryview) -> None:
        """Find what a request wants."""
        if self._published[0] != self._version or self._poller.user_id != self._user:
            self._forget_routes(payload)
        if self._poller.generation.polls_as_classic:
            found = find_poll(payload, self._routes)
            if found is not None:
                route, strategy, value, count, auto_commit = found
                if isinstance(route, GroupRoute):
                    if strategy not in STRATEGIES:
                        raise InvalidCommand(f"there is no polling strategy {strategy}")
                    begin_group_poll(self._services, self._poller, route, found[1:])
                    return
                if strategy == OFFSET and not auto_commit:
                    # What a consumer that reads on asks for, again and again.
                    following = self._services.reads.read_on(route.target, value, count)
                    if following is not None:
                        current, found_count, view = following
                        size = view.nbytes
                        if size <= SHORTEST_CUT or self._fits(size):
                            messages = Messages(
                                route.partition_id, current, found_count, (view,), size
                            )
                            self._poller.reply(messages)
                            return
                if strategy not in STRATEGIES:
                    raise InvalidCommand(f"there is no polling strategy {strategy}")
                user = self._user
                assert user is not None, "a place is known to a user only"
                kind, consumer = route.consumer_kind, route.consumer
                cut = self._poller.cut
                poll = Poll(strategy, value, count, kind, consumer, auto_commit != 0, user, cut)
                self._poll(route, poll)
                return
        self._begin_unknown(payload)

    def _fits(self, size: int) -> bool:
        """Whether the client reads an answer with so many bytes of messages."""
        cut = self._poller.cut
        return cut is AnswerCut.SERVER or size <= ANSWER_SIZES[cut]

    def _forget_routes(self, payload: memoryview) -> None:
        """The metadata or the user has changed since a place was looked up."""
        self._version = self._services.metadata.refresh_version()
        self._user = self._poller.user_id
        self._routes.clear()
        if self._user is None:
            # The change that was just seen has ended the login.
            raise self._poller.no_login(Code.POLL_MESSAGES, payload)

    def _begin_unknown(self, payload: memoryview) -> None:
        self._poller.learn(Code.POLL_MESSAGES, payload)
        command = self._poller.generation.requests[Code.POLL_MESSAGES](payload)
        assert isinstance(command, PollMessages)
        assert self._user is not None
        metadata = self._services.metadata
        state = metadata.state
        stream = state.stream(command.stream)
        topic = stream.topic(command.topic)
        require(state, self._user, Code.POLL_MESSAGES, stream.id, topic.id)
        strategy = command.strategy
        if command.consumer.kind == ConsumerKind.GROUP:
            require_registered(self._services, self._poller)
            of_group = GroupRoute(
                self._services, stream, topic, command.consumer.id, command.partition_id
            )
            self._remember(payload, command, of_group)
            wanted = strategy.kind, strategy.value, command.count, int(command.auto_commit)
            begin_group_poll(self._services, self._poller, of_group, wanted)
            return
        target = metadata.target(stream.id, topic, command.partition_id or 0)
        route = PollRoute(
            target,
            target.partition_id,
            Named(Code.POLL_MESSAGES, command.stream, command.topic),
            command.consumer.kind,
            self._services.consumer_names.number_of(command.consumer.id),
        )
        self._remember(payload, command, route)
        poll = Poll(
            strategy.kind,
            strategy.value,
            command.count,
            route.consumer_kind,
            route.consumer,
            command.auto_commit,
            self._user,
            self._poller.cut,
        )
        self._poll(route, poll)

    def _remember(
        self, payload: memoryview, command: PollMessages, route: PollRoute | GroupRoute
    ) -> None:
        """Know a place by its bytes, if the request ends with its strategy and count."""
        is_known_by_bytes = self._poller.generation.polls_as_classic
        if is_known_by_bytes and len(encode_command(command)) == payload.nbytes:
            if len(self._routes) >= ROUTES_MAX:
                self._routes.clear()
            self._routes[bytes(payload[: -POLL_TAIL.size])] = route

    def _poll(self, route: PollRoute, poll: Poll) -> None:
        self._in_work = route, poll
        self._retried = False
        self._services.reads.poll(route.target, poll, self._polled)

    def _polled(self, status: int, current: int, slices: Slices | None) -> None:
        work = self._in_work
        assert work is not None, "a poll ends once"
        if status == PartitionNotFound.status and not self._retried and self._retry(work):
            return
        self._in_work = None
        if status:
            self._poller.fail_with(status)
            return
        views, count, _, size = NO_SLICES if slices is None else slices
        self._poller.reply(Messages(work[0].partition_id, current, count, views, size))

    def _retry(self, work: PendingPoll) -> bool:
        """Once more, in the life that has begun there meanwhile; False if none has."""
        route, poll = work
        user = self._poller.user_id
        moved = new_life(self._services.metadata, user, route.target, route.named)
        if moved is None:
            return False
        self._poll(route._replace(target=moved), poll)
        self._retried = True
        return True
