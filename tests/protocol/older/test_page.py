"""Requests as the page of the first releases has them: read of clients of V1, and of no others."""

from contextlib import suppress

import pytest

from borzoi.protocol import commands as c
from borzoi.protocol.codes import Code
from borzoi.protocol.errors import BrokerError
from borzoi.protocol.generations import OLD, V1, V1_SHORT, Generation
from borzoi.protocol.older.codecs import V1_CODECS, V1_SHORT_CODECS
from tests.protocol.older.page import REQUESTS


@pytest.mark.parametrize("generation", [V1, V1_SHORT], ids=lambda one: one.name)
@pytest.mark.parametrize("code", REQUESTS, ids=lambda code: code.name)
def test_the_earlier_shape_is_read(generation: Generation, code: Code) -> None:
    payload, command = REQUESTS[code]
    assert generation.requests[code](memoryview(payload)) == command


@pytest.mark.parametrize("code", REQUESTS, ids=lambda code: code.name)
def test_other_generations_do_not_read_it(code: Code) -> None:
    payload, command = REQUESTS[code]
    with suppress(BrokerError):
        assert OLD.requests[code](memoryview(payload)) != command


@pytest.mark.parametrize("generation", [V1, V1_SHORT], ids=lambda one: one.name)
def test_the_later_shape_is_read_as_before(generation: Generation) -> None:
    """Also a group whose name has two letters, whose identifier is as long as a number."""
    codecs = V1_CODECS if generation is V1 else V1_SHORT_CODECS
    wanted = [
        c.GetConsumerGroup("stream", "t", "ab"),
        *(command for _, command in REQUESTS.values()),
    ]
    for command in wanted:
        code = next(code for code, one in codecs.items() if one.command is type(command))
        payload = codecs[code].request.encode(command)
        assert codecs[code].request.decode(memoryview(payload)) == command


def test_a_request_that_is_cut_is_never_read_as_another() -> None:
    for payload, command in REQUESTS.values():
        code = next(code for code, (_, one) in REQUESTS.items() if one is command)
        for size in range(len(payload)):
            with suppress(BrokerError):
                assert V1.requests[code](memoryview(payload[:size])) != command
