"""The consensus framing: 256 bytes before each payload, in both directions (layout.py).

A reply echoes what its request said of itself, so this machine keeps the header it has cut last: a
connection has one request in work. Once a login has got its session number, every request but
another login has to carry that number and the client id of the login; what does not is evicted.
A position in a replicated log does not exist here; replies are counted instead.
"""

from typing import Final

from borzoi.protocol.consensus.evictions import (
    HEADER_SIZE,
    NO_CLIENT,
    Reason,
    eviction,
)
from borzoi.protocol.consensus.heads import Head, stamp
from borzoi.protocol.consensus.layout import (
    BEGINNING,
    CLASSIC_HEADER_AT,
    FIELDS,
    FIELDS_AT,
    NOT_STAMPED,
    REQUEST,
)
from borzoi.protocol.consensus.operations import (
    CODE_OF,
    HAS_SECTION,
    LOGINS_IN_QUERIES,
    NO_CODE,
    QUERY,
    REFUSAL,
    REGISTER,
    STAMPED,
    SUCCEEDED,
)
from borzoi.protocol.errors import (
    IncompatibleProtocol,
    InvalidCommand,
    InvalidCredentials,
    InvalidFormat,
    InvalidPersonalAccessToken,
    StaleClient,
    Unauthenticated,
)
from borzoi.protocol.framing import (
    CODE_SIZE,
    REQUEST_HEADER,
    Bound,
    Cut,
    Frame,
    Need,
    Refused,
)

ZEROS: Final = bytes(FIELDS_AT)

_fields: Final = FIELDS.unpack_from
_leave_classic_header: Final = REQUEST_HEADER.pack_into

LOGIN_REFUSALS: Final = {
    InvalidCredentials.status: Reason.INVALID_CREDENTIALS,
    InvalidPersonalAccessToken.status: Reason.INVALID_TOKEN,
    IncompatibleProtocol.status: Reason.INCOMPATIBLE_PROTOCOL,
    InvalidCommand.status: Reason.MALFORMED_LOGIN,
    InvalidFormat.status: Reason.MALFORMED_LOGIN,
}
"""A login that is refused with another status gets that status in a reply."""


def may_begin(present: memoryview) -> bool:
    """Whether the first bytes of a connection, as far as they are there, can begin such a header.

    The first word of a classic frame is a length of at least four.
    """
    zeros = min(len(present), FIELDS_AT)
    return present[:zeros] == ZEROS[:zeros]


def is_filled(present: memoryview) -> bool:
    """Whether such a header begins the first bytes whose checksums are not zero.

    No client known fills them. Only to be asked of what begins no classic frame either.
    """
    if len(present) < FIELDS_AT + BEGINNING.size:
        return False
    size, kind = BEGINNING.unpack_from(present, FIELDS_AT)
    return bool(size >= HEADER_SIZE and kind == REQUEST)


class ConsensusFraming(Head):
    """The framing of one connection. What runs for every request is done by Head (heads.py)."""

    __slots__ = ()

    header_size: int = HEADER_SIZE

    def bind(self, session: int) -> None:
        """The request in work has logged in under this number; 0: has logged out."""
        self.bound_session = session
        self.bound_client = self.client if session else NO_CLIENT

    def bound(self) -> Bound:
        """The session that requests have to be of."""
        return Bound(self.bound_session, self.bound_client)

    def adopt(self, bound: Bound) -> None:
        """Go on with the session of a connection that has moved here."""
        self.bound_session, self.bound_client = bound
        self.client = bound.client

    def cut(self, view: memoryview, start: int, end: int) -> Cut:
        """What begins at `start`; bytes end at `end`."""
        present = end - start
        if present < HEADER_SIZE:
            return Need(HEADER_SIZE)
        size, kind, client, checksum, request, operation, session, code = _fields(
            view, start + FIELDS_AT
        )
        self.client = client
        self.checksum = checksum
        self.request = request
        self.operation = operation
        refused = self._refused(size, kind, session, code)
        if refused is not None:
            return refused
        if operation != QUERY:
            code = CODE_OF[operation]
        if present < size:
            return Need(size, code)
        payload = view[start + HEADER_SIZE : start + size]
        if checksum != NOT_STAMPED and operation in STAMPED and checksum != stamp(payload):
            return Refused(size, self.reply(0, InvalidFormat.status))
        if not view.readonly:
            _leave_classic_header(
                view, start + CLASSIC_HEADER_AT, size - HEADER_SIZE + CODE_SIZE, code
            )
        return Frame(code, payload, size)

    def _is_of_session(self, session: int, client: bytes) -> bool:
        """Whether a request may be carried out here; before the login its session decides that."""
        bound = self.bound_session
        return not bound or (session == bound and client == self.bound_client)

    def _refused(self, size: int, kind: int, session: int, code: int) -> Refused | None:
        """What becomes of a header that is refused, whatever its payload is."""
        operation = self.operation
        if kind != REQUEST:
            return self._evicted(HEADER_SIZE, Reason.INVALID_OPERATION, close=True)
        if size < HEADER_SIZE:
            return self._evicted(HEADER_SIZE, Reason.INVALID_BODY_SIZE, close=True)
        if operation == QUERY and code in LOGINS_IN_QUERIES:
            return self._evicted(size, Reason.MALFORMED_LOGIN)
        if operation != QUERY and CODE_OF[operation] == NO_CODE:
            return self._evicted(size, Reason.INVALID_OPERATION)
        if operation != REGISTER and not self._is_of_session(session, self.client):
            return self._evicted(size, Reason.NO_SESSION)
        return None

    def _evicted(self, size: int, reason: Reason, *, close: bool = False) -> Refused:
        return Refused(size, eviction(self.client, reason), close)

    # Replies.

    def status(self, status: int) -> bytes:
        """A whole response without a payload."""
        if status == 0:
            return self.success(0)
        if status == StaleClient.status:
            return eviction(self.client, Reason.STALE_CLIENT)
        operation = self.operation
        if operation == REGISTER:
            reason = LOGIN_REFUSALS.get(status)
            return self.reply(0, status) if reason is None else eviction(self.client, reason)
        if status == Unauthenticated.status and operation != QUERY:
            return eviction(self.client, Reason.NO_SESSION)
        if HAS_SECTION[operation]:
            return self.reply(REFUSAL.size, beginning=REFUSAL.pack(1, 0, status))
        return self.reply(0, status)

    def success(self, size: int) -> bytes:
        """What stands before a payload of `size` bytes."""
        if HAS_SECTION[self.operation]:
            return self.reply(len(SUCCEEDED) + size, beginning=SUCCEEDED)
        return self.reply(size)

    def parting(self, status: int) -> bytes:
        """What is said before the broker closes the connection between two answers.

        The client takes it as the answer to its next request: it connects and sends that again.
        """
        if self.client == NO_CLIENT:
            return b""
        stale = status == StaleClient.status
        return eviction(self.client, Reason.STALE_CLIENT if stale else Reason.NO_SESSION)
