"""The numbered requests of one session: each is carried out once, and its answer can be repeated.

Stands between the door and the session, for clients that number what changes something. A number
that was answered gets the same answer again; one that was begun by a worker which died is in doubt
and is taken up again, each kind of request by its rule:

    a batch              what of it is stored already is looked up, the rest is appended
    a change             the metadata log knows whether it was made (metadata/requests.py)
    a stored offset      is stored again, one that was deleted may be gone
    segments to delete   are not deleted twice: the status says that the reply is forgotten

A group is joined and left by each connection for itself: those requests are carried out each time.
The outcome of what is answered with TransientOutcomeUnknown stays in doubt: the client repeats it.
"""

from collections.abc import Callable
from typing import Final, Protocol, TypeAlias

from borzoi.protocol.batch import clear_first_checksum, first_stamp, message_start
from borzoi.protocol.codes import Code
from borzoi.protocol.errors import (
    BrokerError,
    ConsumerOffsetNotFound,
    RequestAlreadyApplied,
    ShardCommunicationError,
    StaleClient,
    TransientOutcomeUnknown,
)
from borzoi.router.buffer import Buffer
from borzoi.router.request_entry import SHORT_SUCCESS, beginner_word
from borzoi.shards.changes.proposals import COMMANDS
from borzoi.shards.changes.writing import METADATA_SHARD
from borzoi.shards.handlers.caller import Caller
from borzoi.shards.handlers.made import answer_made
from borzoi.shards.handlers.services import Services
from borzoi.shards.identity.request_numbers import Held
from borzoi.shards.metadata.requests import RequestKey
from borzoi.shards.partitions.durability import Durability
from borzoi.shards.rings.asking import Abandoned
from borzoi.shards.serving.reply import OK, UNKNOWN_OUTCOME, Payload, Reply, Status, Value
from borzoi.shards.serving.send import PendingSend, Sender, Sending

SEND_MESSAGES: Final = int(Code.SEND_MESSAGES)
NOT_REMEMBERED: Final = frozenset(
    {Code.LOGOUT_USER, Code.JOIN_CONSUMER_GROUP, Code.LEAVE_CONSUMER_GROUP}
)
CHANGES: Final = frozenset(COMMANDS)

CarryOut: TypeAlias = Callable[[int, memoryview, Buffer | None, int], None]
"""Takes a request: code, payload, the buffer it lies in, where it begins there."""

STALE: Final = Status(StaleClient.status, close=True)
FORGOTTEN: Final = Status(RequestAlreadyApplied.status)
TRY_AGAIN: Final = Status(TransientOutcomeUnknown.status)
IN_DOUBT: Final = frozenset({ShardCommunicationError.status, TransientOutcomeUnknown.status})
"""Ends that say nothing about what was done: the client repeats the request, and gets to know."""


class Requester(Caller, Sender, Protocol):
    """The session whose requests are numbered."""

    def begin(self, code: int, payload: memoryview, buffer: Buffer | None, start: int) -> None:
        """Carry out one request."""


class Numbered:
    """What stands between the door and the session of a client that numbers its requests."""

    def __init__(
        self,
        services: Services,
        session: Requester,
        number: Callable[[], int],
        reply: Callable[[Reply], None],
        held: Held,
    ) -> None:
        """`number` is that of the request which the door has cut last, 0 if it has none."""
        self._services = services
        self._session = session
        self._number_of_request = number
        self._reply = reply
        self.held = held
        self._client = held.entry.key.client.to_bytes(16, "little")
        self.number = 0  # of the request in work
        self._code = 0
        self.is_in_doubt = False
        # An answer would outlive the batch that it speaks of: a repeat looks for it instead.
        self._may_be_lost = services.durability is Durability.BUFFERED
        self.own = beginner_word(services.numbers.own)
        self.first_offset: int | None = None  # of a batch that is stored in part

    def begin(self, code: int, payload: memoryview, buffer: Buffer | None, start: int) -> None:
        """Carry out one request, unless that was done before."""
        number = self._number_of_request()
        if number == 0 or code in NOT_REMEMBERED:
            self._session.begin(code, payload, buffer, start)
            return
        held = self.held
        last = held.begun
        if code == SEND_MESSAGES and number > last and not held.is_given_up:
            # What nearly every request is: begun when it is known where the batch goes.
            self.number = number
            self._code = code
            if self.is_in_doubt:
                self.is_in_doubt = False
                self.first_offset = None
            self._session.begin(code, payload, buffer, start)
        elif held.is_given_up:
            self._reply(STALE)
        elif number < last:
            self._reply(FORGOTTEN)
        elif number == last:
            self._repeat(code, payload, buffer, start)
        else:
            self._start(number, code)
            held.begin(number)
            # The log of changes remembers longer than the memory of a client.
            if last or code not in CHANGES or not self._was_made(code, payload):
                self._session.begin(code, payload, buffer, start)

    def reply(self, reply: Reply) -> None:
        """End the request in work, and remember how."""
        if self.number:
            reply = self._remembered(reply)
            self.number = 0
            self._session.request = None
        self._reply(reply)

    def end_send(self, confirmation: bytes) -> None:
        """The same of a send that was confirmed with these bytes, as many as SHORT_REPLY has."""
        if self.number:
            self.number = 0
            held = self.held
            if self._may_be_lost:
                held.end_in_doubt()
            else:
                # What Held.end does is written out here.
                held.entry.store_short(confirmation)
                held.entry.store_end(SHORT_SUCCESS, held.begun)
                held.is_in_work = False
                if held.is_given_up:
                    held.let_go()
        self._reply(Payload(confirmation))

    def give_up(self) -> None:
        """The session ends, moves to another shard or gets another client."""
        self.held.give_up()

    def _start(self, number: int, code: int) -> None:
        self.number = number
        self._code = code
        self.is_in_doubt = False
        self.first_offset = None
        if code != SEND_MESSAGES:
            self._session.request = RequestKey(self._client, number)

    # A number that was begun before.

    def _repeat(self, code: int, payload: memoryview, buffer: Buffer | None, start: int) -> None:
        held = self.held
        if held.entry.is_answered:
            self._reply(self._answer())
        elif code == Code.DELETE_SEGMENTS:
            self._reply(FORGOTTEN)
        elif not held.is_settled or (
            code in CHANGES and not self._services.numbers.is_settled(METADATA_SHARD)
        ):
            self._reply(TRY_AGAIN)
        else:
            self._start(held.begun, code)
            self.is_in_doubt = True
            held.begin_again()
            if code not in CHANGES or not self._was_made(code, payload):
                self._session.begin(code, payload, buffer, start)

    def _answer(self) -> Reply:
        status, body = self.held.entry.answer
        if body is None:
            return FORGOTTEN
        return Status(status) if status else Payload(body)

    def _was_made(self, code: int, payload: memoryview) -> bool:
        """Whether a change in doubt was made; if so it is answered by this."""
        session, services = self._session, self._services
        user_id, request = session.user_id, session.request
        if user_id is None or request is None:
            return False
        made = services.metadata.refresh().made_by(user_id, request)
        if made is None:
            return False
        try:
            command = session.generation.requests[code](payload)
            value = answer_made(services, session, command, made)
        except BrokerError:
            session.fail_with(RequestAlreadyApplied.status)
        else:
            session.reply(Value(code, value))
        return True

    async def stored_part(self, work: PendingSend) -> int | None:
        """How many messages of a batch in doubt are stored; None: it was answered by this."""
        count, route, batch, _, _ = work
        hint = self.held.entry.hint
        if hint is None:
            return 0
        try:
            found = await self._services.doubtful_sends.stored(route.target, batch, count, hint)
        except RequestAlreadyApplied:
            self._session.reply(FORGOTTEN)
            return None
        except BrokerError:
            self._session.reply(TRY_AGAIN)
            return None
        except Abandoned:
            self._session.reply(UNKNOWN_OUTCOME)
            return None
        if found.message_count:
            self.first_offset = found.first_offset
        if found.message_count < count:
            return found.message_count
        confirms = self._session.generation.confirms
        assert confirms is not None, "clients that number their requests read confirmations"
        self._session.reply(Payload(confirms(*route.place, found.first_offset)))
        return None

    # The end of a request.

    def _remembered(self, reply: Reply) -> Reply:
        held = self.held
        if type(reply) is Value:
            reply = Payload(self._session.generation.replies[reply.code](reply.value))
        if type(reply) is Payload:
            if self._code == SEND_MESSAGES and self._may_be_lost:
                held.end_in_doubt()
            else:
                held.end(0, reply.payload)
            return reply
        assert type(reply) is Status, "a numbered request ends with a value or a status"
        if reply.status is None or reply.close:
            held.end_in_doubt()
            return reply
        if reply.status in IN_DOUBT:
            held.end_in_doubt()
            return TRY_AGAIN
        if (
            self.is_in_doubt
            and self._code == Code.DELETE_CONSUMER_OFFSET
            and reply.status == ConsumerOffsetNotFound.status
        ):
            reply = OK
        if held.begun != self.number:
            # Refused before anything was done.
            held.begin(self.number)
        held.end(reply.status or 0)
        return reply


class NumberedSending(Sending):
    """The sends of a session whose requests are numbered."""

    __slots__ = ("_confirms", "_doubtful_sends", "_numbered", "_own")

    def __init__(self, services: Services, session: Requester, numbered: Numbered) -> None:
        super().__init__(services, session)
        self._numbered = numbered
        self._doubtful_sends = services.doubtful_sends
        self._own = services.doubtful_sends.own
        confirms = session.generation.confirms
        assert confirms is not None, "clients that number their requests read confirmations"
        self._confirms = confirms

    # Both are written out here, because they run for nearly every request of such a client.

    def _append(self, work: PendingSend) -> None:
        numbered = self._numbered
        count, route, batch, buffer, position = work
        target = route.target
        number = numbered.number
        if number:
            if numbered.is_in_doubt:
                self._services.tasks.start(self._append_missing(work))
                return
            namespace, birth, _ = target
            own = self._own.get(namespace)
            if own is not None and own.target.birth == birth:
                next_offset = own.published.next_offset
            else:
                next_offset = self._doubtful_sends.next_offset(target)
            held = numbered.held
            held.is_in_work = True
            held.begun = number
            held.entry.store_send(number, namespace, birth, next_offset, numbered.own, number)
        self._begun_at = None
        self._in_work = work
        self._retried = False
        assert self._user is not None
        self._services.appends.append(
            self._user, target, route.owner, batch, count, buffer, position, self._appended
        )

    def _appended(self, status: int, _first: int = 0, _second: int = 0, _third: int = 0) -> None:
        work = self._in_work
        if status or self._begun_at is not None or work is None or work[1].attracts:
            super()._appended(status)
            return
        self._in_work = None
        checksum, offset = first_stamp(work[2])
        assert checksum, "an answered batch is stamped"
        self._numbered.end_send(self._confirms(*work[1].place, offset))

    async def _append_missing(self, work: PendingSend) -> None:
        """Append what a worker that died has not stored of a batch."""
        count, route, batch, buffer, position = work
        stored = await self._numbered.stored_part(work)
        if stored is not None:
            start = message_start(batch, stored)
            rest = batch[start:]
            clear_first_checksum(rest)
            self._begun_at = self._numbered.first_offset
            Sending._append(self, (count - stored, route, rest, buffer, position + start))
