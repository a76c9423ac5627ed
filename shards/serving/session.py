"""One client's session: who it is, and the life of each of its requests.

Where an error becomes a status, and where it is decided whether the connection survives it. A door
refuses by itself frames that are not whole (doors/refused_frames.py) and requests that killed
workers (doors/tcp.py). Here *reply and go on* is the rule, *reply and close* for a client that is
not registered any more. It knows no transport: bytes come in through `begin` and leave through the
`Link` it was given, so another front door is another caller of `begin`.

SEND_MESSAGES and POLL_MESSAGES go by callbacks, without a task; everything else has a handler.
"""

import asyncio
import logging
import socket
import time
from collections.abc import Callable, Coroutine
from inspect import iscoroutine
from typing import Any, Final, Protocol

import xxhash

from borzoi.protocol.codes import Code, LaterCode, code_name
from borzoi.protocol.errors import (
    BrokerError,
    CannotReadPartitions,
    CannotSaveMessagesToSegment,
    ClientNotFound,
    FeatureUnavailable,
    GenericError,
    InvalidCommand,
    IoError,
    StaleClient,
    Unauthenticated,
    Unauthorized,
    error_for,
)
from borzoi.protocol.framing import Bound
from borzoi.protocol.generations import GENERATIONS, UNDECIDED, Generation
from borzoi.protocol.identifiers import ConsumerKind
from borzoi.protocol.permissions import UserStatus
from borzoi.protocol.responses.clients import Transport
from borzoi.router.buffer import Buffer
from borzoi.router.request_entry import ClientKey
from borzoi.shards.handlers.services import Services
from borzoi.shards.handlers.table import HANDLERS
from borzoi.shards.identity.origins import host_of, origin_of
from borzoi.shards.identity.request_numbers import Held
from borzoi.shards.metadata.requests import RequestKey
from borzoi.shards.orders.spec import SessionState
from borzoi.shards.rings.asking import Abandoned
from borzoi.shards.rings.peers import ABANDONED
from borzoi.shards.rings.poll import AnswerCut
from borzoi.shards.rosters.share import Turns
from borzoi.shards.serving.numbered import CarryOut, Numbered, NumberedSending
from borzoi.shards.serving.poll import Polling
from borzoi.shards.serving.reply import UNKNOWN_OUTCOME, Reply, Status, Value
from borzoi.shards.serving.send import Sending
from borzoi.shares import address_taker, user_taker

LOG: Final = logging.getLogger(__name__)

BEFORE_LOGIN: Final = frozenset(
    {
        Code.PING,
        Code.LOGIN_USER,
        Code.LOGIN_WITH_PERSONAL_ACCESS_TOKEN,
        LaterCode.LOGIN_REGISTER,
    }
)
# Plain numbers: comparing with a member of an enumeration costs a call.
SEND_MESSAGES: Final = int(Code.SEND_MESSAGES)
POLL_MESSAGES: Final = int(Code.POLL_MESSAGES)
# They begin with the kind of consumer.
WITH_CONSUMER: Final = frozenset(
    {Code.POLL_MESSAGES, Code.STORE_CONSUMER_OFFSET, Code.DELETE_CONSUMER_OFFSET}
)
AS_GROUP: Final = bytes((ConsumerKind.GROUP,))
TEXT_LENGTH_MAX: Final = 1_000
"""Of what is said about an error; names have 255 bytes."""
OF_THE_MACHINE: Final = (CannotReadPartitions, CannotSaveMessagesToSegment, IoError)
"""Their texts name files of this machine, which is nothing for clients."""
CLOSING: Final = (StaleClient, ClientNotFound)


def client_id_of(address: str, transport: Transport = Transport.TCP) -> int:
    """The id under which the broker knows a client that connects from there.

    Ours: two doors may have a client each at one address and port, so the others hash their name as
    well. An id that is taken would hide a session from the removal of its user.
    """
    text = address if transport is Transport.TCP else f"{transport.name}/{address}"
    return xxhash.xxh32_intdigest(text.encode())


def answer_cut(transport: Transport, generation: Generation) -> AnswerCut:
    """How long an answer a client reads: over QUIC they have a bound."""
    if transport is not Transport.QUIC:
        return AnswerCut.SERVER
    return AnswerCut.STORED if generation.shows is None else AnswerCut.CONVERTED


class Link(Protocol):
    """The door that a session came through."""

    def reply(self, reply: Reply) -> None:
        """End the request in work with this."""

    def speak(self, generation: Generation) -> None:
        """AnswerCut and answer requests as clients of this generation do."""

    def bind(self, session: int) -> None:
        """The request in work begins this session, where requests carry one; 0: it ends one."""

    def bound(self) -> Bound:
        """The session that requests have to be of."""

    def adopt(self, bound: Bound) -> None:
        """Go on with the session of a connection that has moved here."""

    def local_host(self) -> str | None:
        """The address of this machine that the client has reached; None if that is unknown."""

    def numbers(self) -> Callable[[], int]:
        """What says the number of the request in work, 0 if it has none; until speak()."""

    def take_carry_out(self) -> None:
        """Have the next request carried out by what `carry_out` is now."""

    def let_go(self) -> socket.socket | None:
        """The socket, if this is a plain TCP connection with nothing in work."""


class Session:
    """State of one client, from connect to disconnect."""

    def __init__(self, services: Services, link: Link, address: str, transport: Transport) -> None:
        self._services = services
        self._link = link
        self.reply: Callable[[Reply], None] = link.reply
        self.address = address
        self.transport = transport
        self.client_id = client_id_of(address, transport)
        self.user_id: int | None = None
        self.is_open = True
        self.was_removed = False
        self.suspended_user: int | None = None
        self.generation: Generation = UNDECIDED
        self.cut = answer_cut(transport, UNDECIDED)
        self.knows_all_codecs = False
        self.reads_texts = False
        self.turns = Turns()
        self.request: RequestKey | None = None
        self.carry_out: CarryOut = self.begin
        self._numbered: Numbered | None = None
        self._has_moved = False
        # Connecting is the first sign of life.
        self.last_heartbeat = time.monotonic()
        self.has_pinged = False
        self._may_move = transport is Transport.TCP and services.migration.enabled
        self._sending = Sending(services, self)
        self._polling = Polling(services, self)

    @classmethod
    def adopt(cls, services: Services, link: Link, state: SessionState) -> "Session":
        """Go on with a session that another shard has begun. It does not move again."""
        session = cls(services, link, state.address, Transport.TCP)
        user = services.metadata.refresh().users.get(state.user_id)
        if user is None or user.created_at != state.user_created_at:
            session.was_removed = True
        elif user.status == UserStatus.ACTIVE:
            session.user_id = user.id
        else:
            session.suspended_user = user.id
        session.speak(GENERATIONS[state.generation])
        link.adopt(Bound(*state.bound))
        session.knows_all_codecs = state.knows_all_codecs
        session.reads_texts = state.reads_texts
        session.turns = Turns(state.seats)
        session.last_heartbeat = state.last_heartbeat
        session._may_move = False
        session._go_on_with_numbers()
        return session

    def settle_in(self, state: SessionState) -> None:
        """The adopted session is known here by now: so are its groups."""
        self._services.groups.arrived(self.client_id, state.seats)

    def speak(self, generation: Generation) -> None:
        """The client is of this generation, as its first bytes or its login tell."""
        if generation is not self.generation:
            self.generation = generation
            self.cut = answer_cut(self.transport, generation)
            self._link.speak(generation)

    def bind(self, session: int) -> None:
        """The login in work has got this session number; 0: the session ends with this request."""
        self._link.bind(session)
        if not session:
            self._forget_numbers()

    async def number_requests(self) -> None:
        """The login in work is of a client that numbers its requests: go on where it was."""
        self._forget_numbers()
        key = self._client_key()
        if key is None:
            return
        held = await self._services.numbers.take(key)
        if held is not None and self.is_open:
            self._number_from(held)
            self._link.take_carry_out()
        elif held is not None:
            held.give_up()
        else:
            LOG.warning("client %d: no room to remember its requests", self.client_id)

    def _go_on_with_numbers(self) -> None:
        """The session was numbered where it comes from, and has let go of its memory there."""
        key = self._client_key()
        held = None if key is None else self._services.numbers.take_free(key)
        if held is not None:
            self._number_from(held)

    def _client_key(self) -> ClientKey | None:
        """The client as the request memory knows it; None if it has no id, or no user."""
        client = int.from_bytes(self._link.bound().client, "little")
        users = self._services.metadata.refresh().users
        user = None if self.user_id is None else users.get(self.user_id)
        return None if user is None or not client else ClientKey(user.id, user.created_at, client)

    def _number_from(self, held: Held) -> None:
        link = self._link
        self._numbered = numbered = Numbered(self._services, self, link.numbers(), link.reply, held)
        self._sending = NumberedSending(self._services, self, numbered)
        self.reply, self.carry_out = numbered.reply, numbered.begin

    def _forget_numbers(self) -> None:
        """The requests of this session have no numbers, or others than so far."""
        if self._numbered is not None:
            self._numbered.give_up()
            self._numbered = None
            self._sending = Sending(self._services, self)
            self.reply, self.carry_out = self._link.reply, self.begin
            self._link.take_carry_out()

    @property
    def local_host(self) -> str | None:
        """The address of this machine that the client has reached; None if that is unknown."""
        return self._link.local_host()

    def learn(self, code: int, payload: memoryview) -> None:
        """A request that no other generation sends tells which one the client is of."""
        tells = self.generation.tells
        if tells is not None and self.user_id is not None:
            shown = tells(code, payload)
            if shown is not None:
                self.speak(GENERATIONS[shown])

    @property
    def taker(self) -> str:
        """In whose name scarce things are taken: the user's, before the login the address's."""
        if self.user_id is None:
            return address_taker(origin_of(host_of(self.address)))
        return user_taker(self.user_id)

    @property
    def user(self) -> int:
        """The user who is logged in. Raises if none is: a handler that has waited may find so."""
        if self.user_id is None:
            raise self._without_user("this")
        return self.user_id

    def begin(self, code: int, payload: memoryview, buffer: Buffer | None, start: int) -> None:
        """Carry out one request.

        Bytes of `payload` are valid until this returns, those of a SEND_MESSAGES until the answer.
        """
        try:
            if code == SEND_MESSAGES:
                if self.user_id is None:
                    raise self.no_login(code, payload)
                self._sending.begin(payload, buffer, start)
            elif code == POLL_MESSAGES and self.user_id is not None:
                self._polling.begin(payload)
            else:
                self._handle(code, payload)
        except BrokerError as error:
            self._fail(error)
        except AssertionError:
            raise
        except Exception:
            self._report_our_fault(code)

    def refusal_of_send(self, head: memoryview) -> int:
        """The status that a send which begins so gets in any case; 0 if it may be appended."""
        try:
            if self.user_id is None:
                raise self._without_user(Code.SEND_MESSAGES.name)
            self._sending.check_head(head)
        except BrokerError as error:
            LOG.debug("client %d: not taken in, %d: %s", self.client_id, error.status, error)
            return self._status_of(error)
        return 0

    def closed(self) -> None:
        """The client is gone; what it has in work ends without an answer."""
        self.is_open = False
        if self._numbered is not None:
            self._numbered.give_up()
        if not self._has_moved:
            self._services.groups.client_gone(self.client_id)

    # Everything that has a handler.

    def _handle(self, code: int, payload: memoryview) -> None:
        self.learn(code, payload)
        decode = self.generation.requests.get(code)
        if decode is None:
            raise InvalidCommand(f"there is no command {code}")
        command = decode(payload)
        # The user may have been removed or made inactive on another shard.
        self._services.metadata.refresh()
        if self.user_id is None and code not in BEFORE_LOGIN:
            raise self.no_login(code, payload)
        handler = HANDLERS.get(code)
        if handler is None:
            raise FeatureUnavailable(f"{code_name(code)} is not served yet")
        result = handler(self._services, self, command)
        if iscoroutine(result):
            self._services.tasks.start(self._finish_later(code, result))
        else:
            self.reply(Value(code, result))

    async def _finish_later(self, code: int, result: Coroutine[Any, Any, Any]) -> None:
        try:
            self.reply(Value(code, await result))
        except BrokerError as error:
            self._fail(error)
        except Abandoned:
            self.reply(UNKNOWN_OUTCOME)
        except asyncio.CancelledError:
            self.reply(UNKNOWN_OUTCOME)
            raise
        except AssertionError:
            raise
        except Exception:
            self._report_our_fault(code)

    # What sends and polls call when they end.

    def no_login(self, code: int, payload: memoryview) -> BrokerError:
        """Why a request without a login is refused.

        40 before a login, after a logout, and once the user was made inactive. 41 once the user was
        removed, on every session and for every command: what was a user has no permission left, as
        in the original server, whose clients answer a 40 by connecting and asking again. Two
        answers are those of a client that is not registered any more, and end the connection: 100
        to GET_ME, 30 to what needs a member of a group (wire-protocol.md 1.10).
        """
        if self.was_removed:
            if code == Code.GET_ME:
                return ClientNotFound(f"client {self.client_id} is not registered any more")
            as_group = code in WITH_CONSUMER and bytes(payload[:1]) == AS_GROUP
            if as_group or code == Code.JOIN_CONSUMER_GROUP:
                return StaleClient(f"client {self.client_id} is not registered any more")
        return self._without_user(code_name(code))

    @property
    def status_without_login(self) -> int | None:
        """What a frame is refused with that only users may send; None if one is logged in."""
        return None if self.user_id is not None else self._without_user("this").status

    def _without_user(self, what: str) -> BrokerError:
        if self.was_removed:
            return Unauthorized(f"the user of client {self.client_id} was removed")
        return Unauthenticated(f"{what} needs a login")

    def fail_with(self, status: int) -> None:
        """Answer with an error, or close without one if the outcome is unknown."""
        if status == ABANDONED:
            self.reply(UNKNOWN_OUTCOME)
        else:
            self._fail(error_for(status))

    def move_to(self, shard: int) -> None:
        """Go to the shard that owns what we send to, if connections move."""
        if self._may_move:
            # After the answer has left: the transport writes at the end of this turn.
            loop = asyncio.get_running_loop()
            loop.call_soon(loop.call_soon, self._move, shard)

    def stay(self) -> None:
        """Never move: the connection is more than its socket."""
        self._may_move = False

    def _move(self, shard: int) -> None:
        """Move, unless the client was faster."""
        users = self._services.metadata.refresh().users
        user = None if self.user_id is None else users.get(self.user_id)
        if user is None:
            return
        groups = self._services.groups
        seats = groups.seats(self.client_id, self.turns)
        if seats is None:
            return
        if not self._services.clients.is_registered(self):
            # Evicted: arriving on another shard would register it again.
            return
        state = SessionState(
            self.address,
            user.id,
            user.created_at,
            self.generation.name,
            self.knows_all_codecs,
            self.last_heartbeat,
            seats,
            self._link.bound(),
            self.reads_texts,
        )
        if self._services.migration.hand_over(self._link, shard, state):
            self._has_moved = True
            groups.moving(self.client_id, shard)

    # Errors.

    def _fail(self, error: BrokerError) -> None:
        LOG.debug("client %d: status %d: %s", self.client_id, error.status, error)
        is_said = self.reads_texts and not isinstance(error, OF_THE_MACHINE)
        text = f"{error}"[:TEXT_LENGTH_MAX] if is_said else ""
        self.reply(Status(self._status_of(error), isinstance(error, CLOSING), text))

    def _status_of(self, error: BrokerError) -> int:
        status_of = self.generation.status_of
        return error.status if status_of is None else status_of(error)

    def _report_our_fault(self, code: int) -> None:
        LOG.exception("client %d: command %d failed through a fault of ours", self.client_id, code)
        self.reply(Status(GenericError.status, close=True))
