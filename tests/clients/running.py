"""A published client that runs: its process, and its connections as the tests use them.

One process holds any number of connections, and any number of threads may use it. A request of a
test ends with a value, with Refused (the package has raised something) or, when nothing comes
within the deadline, with an AssertionError.
"""

import base64
import json
import subprocess
import sys
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from threading import Lock, Thread
from typing import Any, Final, NamedTuple, Self

from tests.broker import BrokerProcess
from tests.clients.wheels import Wheel

DRIVER: Final = Path(__file__).with_name("driver.py")
ANSWER_TIMEOUT_S: Final = 120.0
STOP_TIMEOUT_S: Final = 10.0
POLL_COUNT: Final = 1000
# Packages wait five seconds before they dial a second time, unless that is said.
QUICK_RECONNECT: Final = "reestablish_after=50ms&reconnection_interval=50ms"
# The same is called otherwise there.
QUICK_OVER_QUIC: Final = "reconnection_reestablish_after=50ms&reconnection_interval=50ms"


class Refused(Exception):
    """What a package has raised, as text."""


class Outgoing(NamedTuple):
    """A message to send; headers and id only for packages that have them."""

    payload: bytes | str
    headers: dict[str, Any] | None = None
    id: int | None = None


class Seen(NamedTuple):
    """A message as a package shows it; None where it has no such method."""

    offset: int
    payload: bytes
    id: int
    timestamp: int
    partition: int | None
    headers: dict[str, Any] | None


class RunningWheel:
    """The process of one package."""

    def __init__(self, wheel: Wheel) -> None:
        self.wheel = wheel
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(DRIVER), str(wheel.directory), wheel.module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self._lock = Lock()
        self._numbers = 0
        self._waiting: dict[int, Future[Any]] = {}
        self._reader = Thread(target=self._read, name=f"reader of {wheel}", daemon=True)
        self._reader.start()

    def begin(self, call: str, **arguments: Any) -> "Future[Any]":
        """Ask without waiting for the answer."""
        future: Future[Any] = Future()
        with self._lock:
            self._numbers += 1
            self._waiting[self._numbers] = future
            line = json.dumps({"number": self._numbers, "call": call, **arguments})
            assert self._process.stdin is not None
            self._process.stdin.write(line.encode() + b"\n")
            self._process.stdin.flush()
        return future

    def ask(self, call: str, **arguments: Any) -> Any:
        """The value of a call; Refused if the package raises."""
        future = self.begin(call, **arguments)
        try:
            return future.result(ANSWER_TIMEOUT_S)
        except TimeoutError:
            raise AssertionError(
                f"{self.wheel}: {call} has no answer within {ANSWER_TIMEOUT_S} s"
            ) from None

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            answer = json.loads(line)
            future = self._waiting.pop(answer["number"])
            if "error" in answer:
                future.set_exception(Refused(answer["error"]))
            else:
                future.set_result(answer["value"])
        for future in list(self._waiting.values()):
            future.set_exception(AssertionError(f"the process of {self.wheel} has ended"))


class Connection:
    """One connection of a running package, logged in as root unless that is left for later."""

    def __init__(
        self,
        running: RunningWheel,
        broker: BrokerProcess,
        name: str,
        *,
        login: bool = True,
        over_quic: bool = False,
    ) -> None:
        self.running = running
        self.name = name
        self._scheme = "iggy+quic" if over_quic else "iggy"
        self._address = broker.quic_address if over_quic else broker.address
        if login:
            self.open()

    def open(self) -> Self:
        """Connect and log in, by the package itself where it can."""
        if self.running.wheel.can("strings"):
            self.open_with("iggy:iggy")
        else:
            self.ask("open", address=self._address)
            self.log_in()
        return self

    def open_with(self, credentials: str) -> None:
        """Connect with `user:password` or a token."""
        options = QUICK_RECONNECT if self._scheme == "iggy" else QUICK_OVER_QUIC
        text = f"{self._scheme}://{credentials}@{self._address}?{options}"
        self.ask("open_string", text=text)

    def log_in(self, username: str = "iggy", password: str = "iggy") -> None:
        self.ask("login", username=username, password=password)

    def recover(self) -> None:
        """What an application does after an error: log in, where the package does not."""
        if not self.running.wheel.can("strings"):
            with suppress(Refused):  # not yet
                self.log_in()

    def close(self) -> None:
        self.ask("close")

    def ask(self, call: str, **arguments: Any) -> Any:
        return self.running.ask(call, name=self.name, **arguments)

    def new_topic(self, name: str, partitions: int = 1) -> None:
        """A stream with a topic of the same name."""
        self.ask("create_stream", stream=name)
        self.ask("create_topic", stream=name, topic=name, partitions=partitions)

    def send(self, topic: str, to: int | dict[str, Any], *messages: Outgoing | bytes | str) -> Any:
        """One batch; partition and offset of it as far as the package tells."""
        return self.ask(
            "send",
            stream=topic,
            topic=topic,
            to={"partition": to} if isinstance(to, int) else to,
            messages=[_line_of(message) for message in messages],
        )

    def poll(
        self,
        topic: str,
        partition: int = 0,
        strategy: str = "First",
        value: int | None = None,
        *,
        count: int = POLL_COUNT,
        commit: bool = False,
    ) -> list[Seen]:
        """One poll; `strategy` is called as in the packages."""
        found = self.ask(
            "poll",
            stream=topic,
            topic=topic,
            partition=partition,
            strategy=strategy,
            value=value,
            count=count,
            commit=commit,
        )
        return [seen(message) for message in found]


def seen(message: dict[str, Any]) -> Seen:
    return Seen(
        message["offset"],
        base64.b64decode(message["payload"]),
        message["id"],
        message["timestamp"],
        message.get("partition"),
        message.get("headers"),
    )


def _line_of(message: Outgoing | bytes | str) -> dict[str, Any]:
    if not isinstance(message, Outgoing):
        message = Outgoing(message)
    payload, headers, number = message
    data = payload.encode() if isinstance(payload, str) else payload
    asked: dict[str, Any] = {
        "payload": base64.b64encode(data).decode(),
        "text": isinstance(payload, str),
    }
    if headers is not None:
        asked |= {"headers": headers, "id": number}
    return asked
