"""Certificates are renewed while the broker serves: no request fails, no connection is lost."""

import os
import shutil
import signal
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from http.client import HTTPSConnection
from pathlib import Path

import pytest

from borzoi.protocol.commands.streams import CreateStream
from tests.broker import BrokerProcess, wait_for
from tests.certificates import Authority, Files
from tests.conftest import NewBroker
from tests.http_client import HttpClient
from tests.shard_wires import TWO_SHARDS
from tests.topics import topic_of
from tests.ways import client_context, door_of, wire_through, with_tls

pytestmark = pytest.mark.slow

RENEWALS = 3
ENCRYPTED = ("tls", "wss", "https")
LINE = b'{"payload":"bQ=="}\n'
CONNECTS_MIN = 20
"""New connections that have to succeed around each renewal."""


class Load:
    """Sends and polls without a pause, over a connection that stays or over ever new ones."""

    def __init__(self, broker: BrokerProcess, way: str, context: ssl.SSLContext) -> None:
        self._broker = broker
        self._way = way
        self._context = context
        self._stop = threading.Event()
        self.done = 0
        self.connects = 0
        self.failures: list[BaseException] = []
        self._threads = [
            threading.Thread(target=self._guarded, args=(work,))
            for work in (self._stay, self._come_and_go)
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(60)
            assert not thread.is_alive()

    def has_connected(self, times: int) -> bool:
        """So often, or it never will."""
        return self.connects >= times or bool(self.failures)

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:
            self.failures.append(error)

    def _stay(self) -> None:
        if self._way == "https":
            self._stay_over_http()
            return
        with wire_through(self._broker, self._way, self._context) as wire:
            while not self._stop.is_set():
                wire.append("load", "load", self.done % 2, [b"m" * 1000] * 10)
                assert wire.poll("load", self.done % 2, count=10).messages
                self.done += 1

    def _stay_over_http(self) -> None:
        token = HttpClient(self._broker, context=self._context).login().token
        where = door_of(self._broker, "https")
        connection = HTTPSConnection("localhost", where.port, timeout=60, context=self._context)
        lines = {"Content-Type": "application/x-ndjson", "Authorization": f"Bearer {token}"}
        messages = "/streams/load/topics/load/messages"
        with closing(connection):
            while not self._stop.is_set():
                partition = f"partition_id={self.done % 2}"
                connection.request("POST", f"{messages}?{partition}", LINE * 10, lines)
                answer = connection.getresponse()
                assert (answer.status, answer.read()) == (201, b"")
                connection.request("GET", f"{messages}?{partition}&count=10", headers=lines)
                answer = connection.getresponse()
                assert answer.status == 200
                assert b'"payload":' in answer.read()
                self.done += 1

    def _come_and_go(self) -> None:
        while not self._stop.is_set():
            if self._way == "https":
                answer = HttpClient(self._broker, context=self._context).ask("GET", "/ping")
                assert answer.body == b"pong"
                self.connects += 1
                continue
            with wire_through(self._broker, self._way, self._context, login=False) as wire:
                assert wire.is_in_step()
            self.connects += 1


@contextmanager
def loaded(broker: BrokerProcess, context: ssl.SSLContext) -> Iterator[list[Load]]:
    with wire_through(broker, "tls", context) as wire:
        wire.ask(CreateStream("load"))
        wire.ask(topic_of("load", 2))
    loads = [Load(broker, way, context) for way in ENCRYPTED]
    with ExitStack() as stack:
        for load in loads:
            load.start()
            stack.callback(load.stop)
        yield loads
    for load in loads:
        assert load.failures == []


def shown(broker: BrokerProcess, way: str) -> str:
    """The certificate that a new connection is shown."""
    return ssl.get_server_certificate(door_of(broker, way))


def is_shown(broker: BrokerProcess, way: str, wanted: str) -> bool:
    return shown(broker, way) == wanted


def install(issued: Files, files: Files) -> None:
    for new, used in zip(issued, files, strict=True):
        shutil.copy(new, used)


def test_renewed_under_load(new_broker: NewBroker, tmp_path: Path) -> None:
    authority = Authority()
    files = authority.issue(tmp_path)
    broker = new_broker(**TWO_SHARDS, **with_tls(files))
    with loaded(broker, client_context(authority.pem)) as loads:
        for number in range(RENEWALS):
            issued = authority.issue(tmp_path, f"renewed{number}")
            wanted = issued.cert.read_text()
            install(issued, files)
            before = [load.connects for load in loads]
            os.kill(broker.pid, signal.SIGHUP)
            for way in ENCRYPTED:
                wait_for(partial(is_shown, broker, way, wanted))
            # Both shards: the kernel spreads what comes.
            for load, count in zip(loads, before, strict=True):
                wait_for(partial(load.has_connected, count + CONNECTS_MIN))
            assert {shown(broker, "tls") for _ in range(8)} == {wanted}
        assert all(load.done for load in loads)
    # A worker that is restarted shows the certificate of today.
    workers = broker.workers()
    os.kill(workers[1], signal.SIGKILL)
    wait_for(lambda: len(broker.workers()) == 2 and broker.workers() != workers)
    wait_for(lambda: "shard 1 lives again" in broker.output())
    assert {shown(broker, "tls") for _ in range(8)} == {wanted}


def test_what_cannot_be_used_changes_nothing(new_broker: NewBroker, tmp_path: Path) -> None:
    authority = Authority()
    files = authority.issue(tmp_path)
    broker = new_broker(**TWO_SHARDS, **with_tls(files))
    before = shown(broker, "tls")
    shutil.copy(authority.issue(tmp_path, "other").key, files.key)
    os.kill(broker.pid, signal.SIGHUP)
    wait_for(lambda: "the certificates stay as they are: tcp.tls.key_file is" in broker.output())
    assert shown(broker, "tls") == before
    with wire_through(broker, "wss", client_context(authority.pem)) as wire:
        assert wire.is_in_step()
