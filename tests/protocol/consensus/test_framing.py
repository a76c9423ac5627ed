"""What the consensus framing refuses by itself, and the session that its requests belong to."""

import struct

import pytest

from borzoi.protocol.codes import Code, LaterCode
from borzoi.protocol.consensus.evictions import EVICTION, Reason
from borzoi.protocol.consensus.framing import ConsensusFraming
from borzoi.protocol.consensus.heads import stamp
from borzoi.protocol.consensus.operations import CODES, HAS_SECTION, OPERATIONS, QUERY, REGISTER
from borzoi.protocol.errors import InvalidFormat, StaleClient, StreamIdNotFound, Unauthenticated
from borzoi.protocol.framing import NOT_WHOLE, Bound, Cut, Frame, Need, Refused

CLIENT = bytes(range(1, 17))
OTHER = bytes(range(2, 18))
PING = int(Code.PING)
CREATE_STREAM = OPERATIONS[Code.CREATE_STREAM]


def request(
    operation: int = QUERY,
    payload: bytes = b"",
    *,
    code: int = PING,
    session: int = 0,
    client: bytes = CLIENT,
    number: int = 1,
    checksum: bytes = bytes(16),
    kind: int = 5,
    size: int | None = None,
) -> bytes:
    """A request, written field by field."""
    header = bytearray(256)
    struct.pack_into("<I", header, 48, 256 + len(payload) if size is None else size)
    header[60] = kind
    header[128:144] = client
    header[144:160] = checksum
    struct.pack_into("<Q", header, 168, number)
    header[176] = operation
    struct.pack_into("<Q", header, 184, session)
    struct.pack_into("<I", header, 196, code if operation == QUERY else 0)
    return bytes(header) + payload


def cut(framing: ConsensusFraming, data: bytes) -> Cut:
    """What becomes of these bytes, whichever way they are looked at."""
    view = memoryview(bytearray(data))
    whole = framing.whole(view, 0, len(data))
    found = framing.cut(view, 0, len(data))
    is_one = isinstance(found, Frame) and found.total == len(data)
    assert whole == (found.code if is_one and isinstance(found, Frame) else NOT_WHOLE)
    return found


def reason(found: Cut | bytes, *, close: bool = False) -> int:
    """The reason of an eviction."""
    if not isinstance(found, bytes):
        assert isinstance(found, Refused)
        assert found.close is close
        found = found.answer
    assert len(found) == 256
    assert found[60] == EVICTION
    assert found[128:144] == CLIENT
    return found[255]


def status(answer: bytes) -> int:
    assert answer[60] == 8
    return int.from_bytes(answer[216:220], "little")


@pytest.mark.parametrize("end", range(257))
def test_a_frame_is_waited_for(end: int) -> None:
    data = request(payload=b"x")
    found = ConsensusFraming().cut(memoryview(data), 0, end)
    assert found == (Need(256) if end < 256 else Need(257, PING))


def test_frames_follow_each_other() -> None:
    data = request(payload=b"one") + request(CREATE_STREAM, b"\1x", number=7)
    framing = ConsensusFraming()
    first = framing.cut(memoryview(data), 0, len(data))
    assert isinstance(first, Frame)
    assert (first.code, bytes(first.payload), first.total) == (PING, b"one", 259)
    second = framing.cut(memoryview(data), first.total, len(data))
    assert isinstance(second, Frame)
    assert (second.code, bytes(second.payload)) == (int(Code.CREATE_STREAM), b"\1x")
    assert (framing.client, framing.request, framing.operation) == (CLIENT, 7, CREATE_STREAM)


@pytest.mark.parametrize("operation", range(256))
def test_every_operation_has_a_code_or_is_refused(operation: int) -> None:
    found = cut(ConsensusFraming(), request(operation, b"body"))
    if operation == QUERY or operation in CODES:
        assert isinstance(found, Frame)
        assert found.code == CODES.get(operation, PING)
    else:
        assert reason(found) == Reason.INVALID_OPERATION
        assert isinstance(found, Refused)
        assert found.total == 260


def test_operations_without_a_result_section() -> None:
    without = {operation for operation in CODES if not HAS_SECTION[operation]}
    assert {CODES[one] for one in without} == {
        Code.LOGOUT_USER, Code.DELETE_SEGMENTS, Code.SEND_MESSAGES
    }  # fmt: skip
    assert len(CODES) == 27
    assert not HAS_SECTION[QUERY]


@pytest.mark.parametrize("kind", [0, 1, 4, 6, 8, 13, 255])
def test_what_is_no_request_ends_the_connection(kind: int) -> None:
    found = cut(ConsensusFraming(), request(kind=kind))
    assert reason(found, close=True) == Reason.INVALID_OPERATION


@pytest.mark.parametrize("size", [0, 1, 255])
def test_a_size_below_that_of_the_header_ends_the_connection(size: int) -> None:
    found = cut(ConsensusFraming(), request(size=size))
    assert reason(found, close=True) == Reason.INVALID_BODY_SIZE


@pytest.mark.parametrize("code", [38, 40, 44, 45])
def test_a_login_is_no_query(code: int) -> None:
    assert reason(cut(ConsensusFraming(), request(code=code))) == Reason.MALFORMED_LOGIN


@pytest.mark.parametrize("operation", [REGISTER, 3, CREATE_STREAM, 149])
def test_a_wrong_stamp_is_refused(operation: int) -> None:
    framing = ConsensusFraming()
    assert isinstance(cut(framing, request(operation, b"body", checksum=stamp(b"body"))), Frame)
    assert isinstance(cut(framing, request(operation, b"body")), Frame)
    found = cut(framing, request(operation, b"body", checksum=stamp(b"other")))
    assert isinstance(found, Refused)
    assert (found.total, found.close) == (260, False)
    assert status(found.answer) == InvalidFormat.status
    too_long = stamp(b"body")[:8] + b"\1" + bytes(7)
    assert isinstance(cut(framing, request(operation, b"body", checksum=too_long)), Refused)


@pytest.mark.parametrize("operation", [QUERY, 160, 161, 162])
def test_a_stamp_is_not_looked_at_elsewhere(operation: int) -> None:
    found = cut(ConsensusFraming(), request(operation, b"body", checksum=b"\1" * 16))
    assert isinstance(found, Frame)


def test_the_hash_of_nothing() -> None:
    assert stamp(b"") == (0x2D06800538D394C2).to_bytes(16, "little")


# Sessions.


def logged_in() -> ConsensusFraming:
    framing = ConsensusFraming()
    assert isinstance(cut(framing, request(REGISTER, b"login")), Frame)
    framing.bind(9)
    return framing


def test_before_a_login_every_session_is_taken() -> None:
    for session in (0, 9):
        assert isinstance(cut(ConsensusFraming(), request(session=session)), Frame)


@pytest.mark.parametrize("operation", [QUERY, 3, CREATE_STREAM, 160, 162])
def test_after_a_login_requests_are_of_its_session(operation: int) -> None:
    framing = logged_in()
    assert isinstance(cut(framing, request(operation, session=9)), Frame)
    assert reason(cut(framing, request(operation, session=8))) == Reason.NO_SESSION
    assert reason(cut(framing, request(operation))) == Reason.NO_SESSION
    other = cut(framing, request(operation, session=9, client=OTHER))
    assert isinstance(other, Refused)
    assert (other.answer[128:144], other.answer[255]) == (OTHER, Reason.NO_SESSION)
    assert isinstance(cut(framing, request(operation, session=9)), Frame)


def test_another_login_is_always_taken() -> None:
    framing = logged_in()
    assert isinstance(cut(framing, request(REGISTER, b"login", client=OTHER)), Frame)
    framing.bind(10)
    assert framing.bound() == Bound(10, OTHER)
    assert isinstance(cut(framing, request(session=10, client=OTHER)), Frame)
    assert isinstance(cut(framing, request(session=9)), Refused)


def test_a_login_that_fails_leaves_the_session_as_it_was() -> None:
    framing = logged_in()
    cut(framing, request(REGISTER, b"login", client=OTHER))
    assert isinstance(cut(framing, request(session=9)), Frame)


def test_a_logout_ends_the_session() -> None:
    framing = logged_in()
    cut(framing, request(3, session=9))
    framing.bind(0)
    assert framing.bound() == Bound(0, bytes(16))
    assert isinstance(cut(framing, request(client=OTHER)), Frame)


def test_a_session_goes_on_elsewhere() -> None:
    there = ConsensusFraming()
    there.adopt(logged_in().bound())
    assert isinstance(cut(there, request(session=9)), Frame)
    assert isinstance(cut(there, request(session=8)), Refused)
    assert reason(there.parting(StaleClient.status)) == Reason.STALE_CLIENT


# Answers.


def test_errors_take_the_way_of_their_operation() -> None:
    framing = ConsensusFraming()
    missing = StreamIdNotFound.status
    cut(framing, request())
    assert status(framing.status(missing)) == missing
    assert len(framing.status(missing)) == 256
    cut(framing, request(160))
    assert status(framing.status(missing)) == missing
    cut(framing, request(CREATE_STREAM))
    answer = framing.status(missing)
    assert status(answer) == 0
    assert answer[256:] == struct.pack("<III", 1, 0, missing)
    assert int.from_bytes(answer[48:52], "little") == len(answer) == 268


def test_without_a_login() -> None:
    framing = ConsensusFraming()
    cut(framing, request())
    assert status(framing.status(Unauthenticated.status)) == Unauthenticated.status
    for operation in (3, CREATE_STREAM, 160, 161):
        cut(framing, request(operation))
        assert reason(framing.status(Unauthenticated.status)) == Reason.NO_SESSION


@pytest.mark.parametrize(("code", "why"), [(42, 9), (53, 10), (14003, 14), (3, 15), (4, 15)])
def test_logins_are_refused_with_a_reason(code: int, why: int) -> None:
    framing = ConsensusFraming()
    cut(framing, request(REGISTER))
    answer = framing.status(code)
    assert reason(answer) == why
    newest, oldest = struct.unpack_from("<II", answer, 144)
    assert (0 < oldest <= newest) if why == Reason.INCOMPATIBLE_PROTOCOL else newest == oldest == 0


def test_logins_are_refused_with_other_statuses_as_they_are() -> None:
    framing = ConsensusFraming()
    cut(framing, request(REGISTER))
    assert status(framing.status(47)) == 47
    assert reason(framing.status(StaleClient.status)) == Reason.STALE_CLIENT


def test_successes() -> None:
    framing = ConsensusFraming()
    cut(framing, request(CREATE_STREAM, number=5))
    answer = framing.status(0)
    assert answer[256:] == bytes(4)
    assert answer[200:208] == (5).to_bytes(8, "little")
    assert answer[208] == CREATE_STREAM
    cut(framing, request(160))
    assert len(framing.success(24)) == 256
    # Answers are counted.
    assert int.from_bytes(answer[176:184], "little") == 1
    assert int.from_bytes(framing.status(1)[184:192], "little") == 3


def test_last_words() -> None:
    framing = ConsensusFraming()
    assert framing.parting(8) == b""
    cut(framing, request())
    assert reason(framing.parting(8)) == Reason.NO_SESSION
    assert reason(framing.parting(StaleClient.status)) == Reason.STALE_CLIENT


def test_a_login_has_one_code() -> None:
    found = cut(ConsensusFraming(), request(REGISTER, b"login"))
    assert isinstance(found, Frame)
    assert found.code == LaterCode.LOGIN_REGISTER
