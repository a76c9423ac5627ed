"""Requests ahead of their answers, against a server that breaks connections."""

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise

import pytest

from borzoi.client.address import Login, ServerAddress
from borzoi.protocol.codes import Code
from borzoi.protocol.errors import InvalidCommand, InvalidCredentials, Unauthorized
from borzoi.protocol.framing import RESPONSE_HEADER
from borzoi.spark.failures import LoginFailed, NotAllowed, Unreachable
from borzoi.spark.options import Access
from borzoi.spark.sending import AHEAD_MAX, Sending
from borzoi.spark.wire import PIECE_SIZE, close_idle
from tests import fake_server
from tests.fake_server import requests

USER_ID = struct.pack("<I", 0)
Answer = Callable[[int, bytes], int | None]


class Sends:
    """Answers with the status that `answer` chooses; where it chooses none, it hangs up.

    `answer` gets the number of the send, from 0, and its payload.
    """

    def __init__(self, answer: Answer, login_status: int) -> None:
        self.sends: list[bytes] = []
        self.connections = 0
        self._answer = answer
        self._login_status = login_status

    def serve(self, connection: socket.socket) -> None:
        self.connections += 1
        for request in requests(connection):
            if request.code != Code.SEND_MESSAGES:
                answer = RESPONSE_HEADER.pack(self._login_status, len(USER_ID)) + USER_ID
                connection.sendall(answer)
                continue
            self.sends.append(request.payload)
            status = self._answer(len(self.sends) - 1, request.payload)
            if status is None:
                return
            connection.sendall(RESPONSE_HEADER.pack(status, 0))


@contextmanager
def serving(answer: Answer, login_status: int = 0) -> Iterator[tuple[Sends, Access]]:
    sends = Sends(answer, login_status)
    with fake_server.serving(sends.serve) as server:
        address = ServerAddress("127.0.0.1", server.port, Login("iggy", "iggy"))
        yield sends, Access(address, None, timeout_s=10, retries=2, retry_interval_s=0.001)
        close_idle()


def send_numbers(access: Access, count: int) -> list[bytes]:
    payloads = [b"%d" % number for number in range(count)]
    with Sending(access) as sending:
        for payload in payloads:
            sending.send(payload)
    return payloads


def test_all_are_answered_before_it_ends() -> None:
    with serving(lambda *_: 0) as (server, access):
        assert send_numbers(access, 20) == server.sends
        large = memoryview(b"x" * (PIECE_SIZE + 1))
        with Sending(access) as sending:
            sending.send(b"small", large, b"end")
        assert server.sends[-1] == b"small" + large + b"end"
        assert server.connections == 1, "the connection is kept for the next task"


def test_no_more_are_ahead_than_allowed() -> None:
    may_answer = threading.Semaphore(0)

    def answer(*_: object) -> int:
        assert may_answer.acquire(timeout=10)
        return 0

    with serving(answer) as (server, access), Sending(access) as sending:
        for number in range(AHEAD_MAX):
            sending.send(b"%d" % number)  # none of them waits
        may_answer.release(AHEAD_MAX + 1)
        sending.send(b"last")
        sending.finish()
        assert len(server.sends) == AHEAD_MAX + 1


def test_what_was_not_answered_is_sent_again_in_order() -> None:
    with serving(lambda number, _: None if number in (3, 9) else 0) as (server, access):
        send_numbers(access, 12)
        assert server.connections == 3
        # A reset may also swallow answers that were on their way, so more may come twice than
        # the one that was not answered; never less, and never in another order.
        sent = [int(payload) for payload in server.sends]
        steps = [later - sooner for sooner, later in pairwise(sent)]
        assert [number for number, step in enumerate(steps) if step != 1] == [3, 9]
        assert all(-AHEAD_MAX <= steps[number] <= 0 for number in (3, 9))
        assert (sent[0], sent[-1]) == (0, 11)


def test_a_server_that_stays_away_is_an_error() -> None:
    with serving(lambda *_: None) as (server, access):
        with pytest.raises(Unreachable, match="after 3 attempts"):
            send_numbers(access, 5)
        assert server.connections == 3


def test_a_login_that_is_refused_is_not_tried_again() -> None:
    refused = InvalidCredentials.status
    with serving(lambda *_: 0, login_status=refused) as (server, access):
        with pytest.raises(LoginFailed, match=r"^IGGY_LOGIN_FAILED: .* does not let iggy in: .*"):
            send_numbers(access, 1)
        assert server.connections == 1
        assert server.sends == []


def test_what_a_user_may_not_do_has_a_code() -> None:
    refused = pytest.raises(NotAllowed, match=r"^IGGY_NOT_ALLOWED: .* lacks the permission")
    with serving(lambda *_: Unauthorized.status) as (_, access), refused:
        send_numbers(access, 1)


def test_a_refused_batch_ends_the_task() -> None:
    with serving(lambda number, _: 3 if number == 1 else 0) as (server, access):
        with pytest.raises(InvalidCommand):
            send_numbers(access, 30)
        assert len(server.sends) < 30
