"""How a hostile client of each generation speaks: its connections, its mutants, its frames."""

import os
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any, Final

from borzoi.protocol.classic import CODECS
from borzoi.protocol.codec import CommandCodec
from borzoi.protocol.codes import Code
from borzoi.protocol.commands import Command
from borzoi.protocol.consensus import codecs as consensus
from borzoi.protocol.consensus.operations import CODE_OF, QUERY, SEND
from borzoi.protocol.generations import CLASSIC, CONSENSUS, GENERATIONS, Generation, code_of
from tests import older_wire
from tests.broker import BrokerProcess
from tests.consensus_wire import ConsensusWire
from tests.hostile.consensus_mutation import (
    CODE_AT,
    OPERATION_AT,
    REQUESTS,
    RIGHT_AGAIN,
    SIZE_AT,
    make_batch_right,
)
from tests.hostile.mutation import CORPUS, Mutant, mutant
from tests.hostile.older_mutation import CORPORA
from tests.older_wire import OlderWire
from tests.wire import Wire

NOW_US: Final = 1_700_000_000_000_000
FOREIGN: Final = 0.02
"""So often a request names a session, a client or a number that is not its own."""

Decode = Callable[[memoryview], Command]


class Dialect:
    """Eight bytes before each payload."""

    size_at = 0  # of a frame

    def __init__(
        self,
        generation: Generation = CLASSIC,
        corpus: Sequence[Mutant] = CORPUS,
        codecs: Mapping[int, CommandCodec] = CODECS,
    ) -> None:
        self.generation = generation
        self.corpus = corpus
        self._codecs = codecs

    def connect(self, broker: BrokerProcess, *, login: bool) -> Wire:
        wire = Wire(broker, login=False)
        return wire.log_in() if login else wire

    def mutant(self, number: int) -> Mutant:
        return mutant(number, self.corpus)

    def request(self, command: Command) -> Mutant:
        """A request that is as it should be."""
        code = code_of(command)
        return Mutant(code, self._codecs[code].request.encode(command))

    def frame(self, wire: Wire, mutated: Mutant, chance: Random) -> bytes:
        """What is written to the socket."""
        del wire, chance
        return mutated.frame

    def is_in_step(self, wire: Wire) -> bool:
        """Whether the next request gets the next answer."""
        return wire.is_in_step()

    def decoder(self, code: int) -> Decode | None:
        return decoder_of(self.generation, code)


class ConsensusDialect(Dialect):
    """256 bytes before each payload, with the session of the connection."""

    size_at = SIZE_AT

    def __init__(self) -> None:
        super().__init__(
            CONSENSUS,
            [Mutant(_code(one.header), one.payload) for one in REQUESTS],
            consensus.CODECS,
        )

    def connect(self, broker: BrokerProcess, *, login: bool) -> Wire:
        return ConsensusWire(broker, login=login)

    def mutant(self, number: int) -> Mutant:
        """The payload of a number; the batch of a send has right checksums most of the time."""
        mutated = super().mutant(number)
        if mutated.code != CODE_OF[SEND] or Random(~number).random() > RIGHT_AGAIN:
            return mutated
        payload = bytearray(mutated.payload)
        make_batch_right(payload)
        return Mutant(mutated.code, bytes(payload))

    def frame(self, wire: Wire, mutated: Mutant, chance: Random) -> bytes:
        assert isinstance(wire, ConsensusWire)
        changed: dict[str, Any] = {}
        if chance.random() < FOREIGN:
            changed = chance.choice(
                (
                    {"session": chance.getrandbits(64)},
                    {"client": chance.randbytes(16)},
                    {"request": chance.choice((0, 1, wire.number + 7, 2**64 - 1))},
                    {"checksum": chance.randbytes(16)},
                )
            )
        frame = wire.frame(mutated.code, mutated.payload, **changed)
        wire.number += frame[OPERATION_AT] != QUERY
        return frame

    def is_in_step(self, wire: Wire) -> bool:
        """By the client id, which each answer echoes: a mutant may have ended the session."""
        assert isinstance(wire, ConsensusWire)
        client = os.urandom(16)
        wire.request(Code.PING, client=client)
        return client in (wire.header[128:144], wire.header[160:176])


class OlderDialect(Dialect):
    """The classic framing with the payloads of another generation, once it is logged in."""

    def __init__(self, name: str) -> None:
        super().__init__(GENERATIONS[name], CORPORA[name], older_wire.DIALECTS[name].codecs)

    def connect(self, broker: BrokerProcess, *, login: bool) -> Wire:
        return OlderWire(broker, self.generation.name, login=login)


def decoder_of(generation: Generation, code: int) -> Decode | None:
    """What reads a request; that of a send may need the time."""
    if generation.timed_send is not None and code == Code.SEND_MESSAGES:
        timed_send = generation.timed_send
        return lambda payload: timed_send(payload, NOW_US)
    return generation.requests.get(code)


def _code(header: bytes) -> int:
    operation = header[OPERATION_AT]
    if operation == QUERY:
        return int.from_bytes(header[CODE_AT : CODE_AT + 4], "little")
    return CODE_OF[operation]


DIALECTS: Final[Mapping[str, Dialect]] = {
    one.generation.name: one
    for one in (
        Dialect(),
        ConsensusDialect(),
        OlderDialect("bare-keys"),
        OlderDialect("hybrid"),
        OlderDialect("old"),
        OlderDialect("old-text"),
        OlderDialect("v1"),
        OlderDialect("v1-short"),
    )
}
