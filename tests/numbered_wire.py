"""A client that numbers its requests and comes back under its own id, as the tests want it."""

import os
from collections.abc import Sequence
from typing import Final

from borzoi.protocol import commands as c
from borzoi.protocol.codes import Code
from borzoi.protocol.commands import Command
from borzoi.protocol.consensus.codecs import CODECS
from borzoi.protocol.message import Message
from borzoi.protocol.responses import Registered, SentBatch
from tests.broker import BrokerProcess, wait_for
from tests.consensus_wire import CODES, ConsensusWire, send_payload
from tests.shard_wires import shard_of_connection
from tests.wire import ROOT, Answer, Closed, Listening

CONNECTIONS_MAX: Final = 16
CONNECT_TIMEOUT_S: Final = 30.0


def new_client() -> bytes:
    """The id of a client."""
    return os.urandom(16)


def messages(first: int, count: int = 1, size: int = 32) -> list[Message]:
    """Messages with ids from `first` on, and payloads that tell them."""
    return [
        Message(str(number).encode().rjust(size, b"."), id=number + 1 << 64)
        for number in range(first, first + count)
    ]


class NumberedWire(ConsensusWire):
    """One connection of a client whose id is its own."""

    def __init__(
        self,
        broker: Listening,
        client: bytes,
        *,
        login: bool = True,
        user: tuple[str, str] = (ROOT.username, ROOT.password),
    ) -> None:
        self.own_client = client
        super().__init__(broker, login=False)
        if login:
            self.log_in(*user)

    def register(self, command: c.Register) -> Registered:
        """Log in under the client's own id."""
        self.client, self.session = self.own_client, 0
        registered: Registered = self.ask(command)
        self.session = registered.session
        return registered

    def put_command(self, number: int, command: Command) -> None:
        """Write a request of this number; `answer` waits."""
        code = CODES[type(command)]
        self.put(self.frame(code, CODECS[code].request.encode(command), request=number))

    def numbered(self, number: int, command: Command) -> Answer:
        """The answer to a request of this number."""
        self.put_command(number, command)
        return self.answer()

    def put_batch(self, number: int, topic: str, partition: int, batch: Sequence[Message]) -> None:
        """Write a send of this number; `answer` waits."""
        payload = send_payload(topic, topic, partition, batch)
        self.put(self.frame(Code.SEND_MESSAGES, payload, request=number))

    def send_batch(
        self, number: int, topic: str, partition: int, batch: Sequence[Message]
    ) -> Answer:
        """The answer to a send of this number."""
        self.put_batch(number, topic, partition, batch)
        return self.answer()


def sent_batch(answer: Answer) -> SentBatch:
    """Where a batch lies, as the answer says."""
    assert answer.status == 0, answer
    sent: SentBatch = CODECS[Code.SEND_MESSAGES].answer.decode(memoryview(answer.payload))
    return sent


def numbered_on_shard(broker: BrokerProcess, shard: int, client: bytes) -> NumberedWire:
    """A connection of the client that this shard has accepted."""
    wire = wait_for(lambda: _try_shard(broker, shard, client), CONNECT_TIMEOUT_S)
    assert wire is not None
    return wire


def _try_shard(broker: BrokerProcess, shard: int, client: bytes) -> NumberedWire | None:
    others: list[NumberedWire] = []
    try:
        for _ in range(CONNECTIONS_MAX):
            wire = NumberedWire(broker, client, login=False)
            if shard_of_connection(broker, wire) == shard:
                wire.log_in()
                return wire
            others.append(wire)
    except Closed:
        return None
    finally:
        for other in others:
            other.close()
    return None
