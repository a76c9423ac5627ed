"""Lengths that lie: every command with every interesting length, before and after a login.

A length is refused before anything is reserved for it, with the status the wire protocol names,
and afterwards the connection is either in step or closed, never waiting.
"""

from typing import Final

import pytest

from borzoi.protocol.codes import Code
from borzoi.protocol.errors import (
    BrokerError,
    InvalidCommand,
    Unauthenticated,
)
from borzoi.protocol.framing import CODE_SIZE, REQUEST_HEADER, encode_request
from borzoi.protocol.generations import CLASSIC
from tests.broker import BrokerProcess
from tests.conftest import NewBroker
from tests.hostile.memory import MIB, counted_memory, memory_peak
from tests.hostile.neighbour import good_neighbour
from tests.topics import make_topic
from tests.wire import PING, Answer, Wire, send_frame

CODES: Final = (*sorted(Code), 0, 9999, 2**32 - 1)
SHORT: Final = (0, 3)  # do not even cover the code
ABSURD: Final = (2**31 - 1, 2**31, 2**32 - 1)  # beyond every cap
BEFORE_LOGIN: Final = (Code.PING, Code.LOGIN_USER, Code.LOGIN_WITH_PERSONAL_ACCESS_TOKEN)
# Frames of these have different ways through the broker.
THOROUGH: Final = (Code.PING, Code.SEND_MESSAGES, Code.POLL_MESSAGES, Code.CREATE_STREAM, 9999)
# Heaps grow a little with every connection; the smallest of the absurd lengths is 2 GiB.
GROWTH_MAX: Final = 24 * MIB


def empty_payload_status(code: int, logged_in: bool) -> int | None:
    """The status for a frame that is nothing but its code; None: whatever its handler says."""
    if code == Code.SEND_MESSAGES and not logged_in:
        return Unauthenticated.status
    decode = CLASSIC.requests.get(code)
    if decode is None:
        return InvalidCommand.status
    try:
        decode(memoryview(b""))
    except BrokerError as error:
        return error.status
    if not logged_in and code not in BEFORE_LOGIN:
        return Unauthenticated.status
    return None


def memory_after_logins(broker: BrokerProcess) -> int:
    """What the workers need once each of them has hashed a password, which takes 19 MiB."""
    for _ in range(8):
        Wire(broker).close()
    return counted_memory(broker)


@pytest.mark.slow
@pytest.mark.parametrize("logged_in", [False, True], ids=["before login", "after login"])
def test_every_command_with_every_length(shared_broker: BrokerProcess, logged_in: bool) -> None:
    broker = shared_broker
    before = memory_after_logins(broker)

    def connect() -> Wire:
        wire = Wire(broker, login=False)
        return wire.log_in() if logged_in else wire

    with memory_peak(broker) as peak:
        wire = connect()
        for code in CODES:
            for length in SHORT:
                wire.put(REQUEST_HEADER.pack(length, code))
                assert wire.answer() == Answer(InvalidCommand.status, b""), (code, length)
                assert wire.is_in_step(), (code, length)
            if code == Code.LOGOUT_USER:
                continue  # Later: it would end the login of this connection.
            answer = wire.request(code)
            expected = empty_payload_status(code, logged_in)
            assert expected is None or answer.status == expected, (code, answer)
            assert wire.is_in_step(), code
        assert (wire.request(Code.LOGOUT_USER).status == 0) == logged_in
        assert wire.is_in_step()
        wire.close()

        refusal = InvalidCommand if logged_in else Unauthenticated
        for number, code in enumerate(CODES):
            # A login takes 20 ms and more: after one, most commands get one length each.
            every = not logged_in or code in THOROUGH
            for length in ABSURD if every else ABSURD[number % len(ABSURD) :][:1]:
                with connect() as doomed:
                    doomed.put(REQUEST_HEADER.pack(length, code))
                    assert doomed.answer() == Answer(refusal.status, b""), (code, length)
                    assert doomed.is_closed(), (code, length)
    assert peak() < before + GROWTH_MAX


@pytest.mark.slow
@pytest.mark.parametrize("code", [Code.LOGIN_USER, Code.PING, Code.SEND_MESSAGES])
def test_a_refused_length_is_answered_before_its_bytes_come(
    shared_broker: BrokerProcess, code: int
) -> None:
    """100 MiB before a login: the header is enough. What follows is thrown away, in step."""
    declared = 100 * MIB
    with Wire(shared_broker, login=False) as wire:
        wire.put(REQUEST_HEADER.pack(declared, code))
        assert wire.answer() == Answer(Unauthenticated.status, b"")
        chunk = bytes(MIB)
        left = declared - CODE_SIZE
        while left:
            wire.put(chunk[:left])
            left -= min(left, MIB)
        assert wire.is_in_step()


@pytest.mark.slow
def test_a_refused_length_is_answered_at_once_after_a_login_too(
    shared_broker: BrokerProcess,
) -> None:
    with Wire(shared_broker, login=False) as wire:
        wire.log_in()
        wire.put(REQUEST_HEADER.pack(11 * MIB, Code.CREATE_STREAM))
        assert wire.answer() == Answer(InvalidCommand.status, b"")
        wire.put(bytes(11 * MIB - CODE_SIZE))
        assert wire.is_in_step()


@pytest.mark.slow
def test_an_answer_to_an_absurd_length_survives_the_bytes_that_follow(
    shared_broker: BrokerProcess,
) -> None:
    """A close with unread bytes would be a reset, and the answer may be lost with it."""
    with Wire(shared_broker, login=False) as wire:
        wire.put(REQUEST_HEADER.pack(2**32 - 1, Code.LOGIN_USER))
        for _ in range(16):
            wire.put(bytes(MIB))
        assert wire.answer() == Answer(Unauthenticated.status, b"")
        assert wire.is_closed()


@pytest.mark.slow
def test_a_declared_length_costs_nothing_before_its_bytes_come(
    shared_broker: BrokerProcess,
) -> None:
    declared = 127 * MIB
    before = memory_after_logins(shared_broker)
    with good_neighbour(shared_broker), memory_peak(shared_broker) as peak:
        wire = Wire(shared_broker)
        wire.put(REQUEST_HEADER.pack(declared, Code.SEND_MESSAGES) + bytes(1000))
        with Wire(shared_broker, login=False) as beside:
            assert beside.is_in_step()
        wire.close()
    assert peak() < before + GROWTH_MAX < before + declared


@pytest.mark.slow
def test_the_caps_at_their_bounds(new_broker: NewBroker) -> None:
    before_login, control, send = 4096, 64 * 1024, 1024 * 1024
    broker = new_broker(
        IGGY_SYSTEM_MEMORY_POOL_SIZE="512MiB",
        IGGY_LIMITS_FRAME_SIZE_MAX_BEFORE_LOGIN=str(before_login),
        IGGY_LIMITS_CONTROL_FRAME_SIZE_MAX=str(control),
        IGGY_LIMITS_FRAME_SIZE_MAX=str(send),
    )

    def ping_of(size: int) -> bytes:
        """Bytes behind the end of a payload are ignored, so a PING can have any size."""
        return encode_request(Code.PING, bytes(size - REQUEST_HEADER.size))

    def send_of(size: int) -> bytes:
        overhead = len(send_frame("s", "t", [b""]))
        return send_frame("s", "t", [bytes(size - overhead)])

    ok = Answer(0, b"")
    with Wire(broker, login=False) as wire:
        wire.put(ping_of(before_login))
        assert wire.answer() == ok
        # One byte more is thrown away whole, and the next frame is found where it begins.
        wire.put(ping_of(before_login + 1) + PING)
        assert wire.answers(2) == [Answer(Unauthenticated.status, b""), ok]
        wire.put(ping_of(send) + PING)
        assert wire.answers(2) == [Answer(Unauthenticated.status, b""), ok]
        wire.log_in()
        make_topic(wire, "s", "t")
        # This bound is one of the payload.
        wire.put(ping_of(control + REQUEST_HEADER.size))
        assert wire.answer() == ok
        wire.put(ping_of(control + REQUEST_HEADER.size + 1) + PING)
        assert wire.answers(2) == [Answer(InvalidCommand.status, b""), ok]
        wire.put(send_of(send))
        assert wire.answer() == ok
        assert wire.is_in_step()
        # Too much even to throw away.
        wire.put(REQUEST_HEADER.pack(send - 4 + 1, Code.SEND_MESSAGES))
        assert wire.answer() == Answer(InvalidCommand.status, b"")
        assert wire.is_closed()
    assert "fault of ours" not in broker.output()
