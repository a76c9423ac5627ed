"""Every command of the protocol is served."""

from typing import Final

from borzoi.protocol.codes import Code, LaterCode
from borzoi.protocol.generations import CLASSIC, CONSENSUS
from borzoi.shards.handlers.table import HANDLERS

CODES: Final = {
    *(1, 10, 11, 12, 20, 21, 22),
    *(31, 32, 33, 34, 35, 36, 37, 38, 39, 41, 42, 43, 44),
    *(100, 101, 102, 120, 121, 122),
    *(200, 201, 202, 203, 204, 205, 300, 301, 302, 303, 304, 305, 402, 403, 503),
    *(600, 601, 602, 603, 604, 605),
}
"""As the specification lists them."""

CARRIED_OUT_BY_THE_SESSION: Final = {Code.SEND_MESSAGES, Code.POLL_MESSAGES}


def test_the_codes_are_those_of_the_specification() -> None:
    assert set(Code) == CODES
    assert len(CODES) == 47


def test_every_code_has_a_handler_or_is_the_sessions_own() -> None:
    assert {Code(code).name for code in CODES - CARRIED_OUT_BY_THE_SESSION - set(HANDLERS)} == set()
    assert set(HANDLERS) == CODES - CARRIED_OUT_BY_THE_SESSION | set(LaterCode)


def test_every_code_can_be_read_and_answered() -> None:
    # A batch is read where it lies, by the session.
    assert set(CLASSIC.requests) | {Code.SEND_MESSAGES} == CODES
    assert set(CLASSIC.replies) | CARRIED_OUT_BY_THE_SESSION >= CODES


def test_every_code_of_the_consensus_generation_can_be_read_and_answered() -> None:
    logins = {Code.LOGIN_USER, Code.LOGIN_WITH_PERSONAL_ACCESS_TOKEN}
    assert set(CONSENSUS.requests) == set(CONSENSUS.replies) == CODES - logins | set(LaterCode)
