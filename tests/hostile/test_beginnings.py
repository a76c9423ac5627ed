"""The first bytes of a connection: cut anywhere, of no generation, or never finished."""

import random
import struct
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest

from borzoi.protocol.codes import Code, LaterCode
from borzoi.protocol.commands import GetStream
from borzoi.protocol.generations import SERVED
from tests.broker import BrokerProcess, standing, wait_for
from tests.consensus_wire import VERSION, ConsensusWire
from tests.hostile.conftest import SMALL_POOL
from tests.hostile.dialects import DIALECTS
from tests.hostile.neighbour import good_neighbour
from tests.wire import PING, Closed, Wire

FRAME_TIMEOUT_S: Final = 2
IMPATIENT: Final = {**SMALL_POOL, "IGGY_LIMITS_FRAME_TIMEOUT": f"{FRAME_TIMEOUT_S} s"}
TLS_HELLO: Final = bytes.fromhex("16030102000100") + bytes(505)
REGISTER: Final = struct.pack("<I", VERSION) + b"\4test\x011" + b"\4iggy\4iggy" + bytes(4)
HTTP: Final = b"GET /streams HTTP/1.1\r\nHost: localhost\r\n\r\n"


def consensus_ping(wire: ConsensusWire) -> bytes:
    return wire.frame(Code.PING)


@pytest.mark.slow
def test_the_first_frame_may_be_cut_at_each_byte(shared_broker: BrokerProcess) -> None:
    """In both framings: what tells them apart comes in two pieces, too."""
    with good_neighbour(shared_broker):
        for cut in range(1, len(PING)):
            with Wire(shared_broker, login=False) as wire:
                wire.put(PING[:cut])
                wire.put(PING[cut:])
                assert wire.answer().status == 0, cut
                wire.log_in()
        for cut in range(1, 256):
            with ConsensusWire(shared_broker, login=False) as other:
                frame = consensus_ping(other)
                other.put(frame[:cut])
                other.put(frame[cut:])
                assert other.answer().status == 0, cut


@pytest.mark.parametrize("generation", sorted(DIALECTS))
def test_a_login_may_come_byte_by_byte(shared_broker: BrokerProcess, generation: str) -> None:
    """Also as the first frame of its connection."""
    with DIALECTS[generation].connect(shared_broker, login=False) as wire:
        whole = wire.put
        wire.put = lambda data: [whole(data[at : at + 1]) for at in range(len(data))]  # type: ignore[assignment, method-assign]
        wire.log_in()
        assert wire.is_in_step()


@pytest.mark.parametrize("generation", sorted(DIALECTS))
def test_a_header_may_be_cut_at_each_byte_behind_the_login(
    shared_broker: BrokerProcess, generation: str
) -> None:
    dialect = DIALECTS[generation]
    with dialect.connect(shared_broker, login=True) as wire:
        asked = dialect.request(GetStream("nowhere"))
        size = len(dialect.frame(wire, asked, random.Random(1)))
        for cut in range(1, size):
            frame = dialect.frame(wire, asked, random.Random(1))
            wire.put(frame[:cut])
            wire.put(frame[cut:])
            assert wire.answer().status == 0, cut


HALVES: Final[dict[str, Callable[[ConsensusWire], bytes]]] = {
    "classic, 1 byte": lambda _: PING[:1],
    "classic, 4 bytes": lambda _: PING[:4],
    "classic, 7 bytes": lambda _: PING[:7],
    "classic, half a payload": lambda _: struct.pack("<II", 104, Code.LOGIN_USER) + bytes(50),
    "consensus, 1 byte": lambda wire: consensus_ping(wire)[:1],
    "consensus, 4 bytes": lambda wire: consensus_ping(wire)[:4],
    "consensus, 8 bytes": lambda wire: consensus_ping(wire)[:8],
    "consensus, before the size": lambda wire: consensus_ping(wire)[:48],
    "consensus, 255 bytes": lambda wire: consensus_ping(wire)[:255],
    "consensus, half a payload": lambda wire: wire.frame(LaterCode.LOGIN_REGISTER, REGISTER)[:-7],
}


@pytest.mark.slow
def test_half_a_header_is_closed_by_the_frame_deadline(tmp_path: Path) -> None:
    """In each framing, before and after a login; a line says what is served."""
    with standing(tmp_path / "data", IMPATIENT) as broker, good_neighbour(broker):
        waiting = {}
        for name, half in HALVES.items():
            wire = waiting[name] = ConsensusWire(broker, login=False)
            wire.put(half(wire))
        for name, dialect in DIALECTS.items():
            logged_in = dialect.connect(broker, login=True)
            frame = dialect.frame(logged_in, dialect.corpus[0], random.Random(1))
            logged_in.put(frame[: dialect.size_at + 3])
            waiting[f"{name}, logged in"] = logged_in  # type: ignore[assignment]
        for name, wire in waiting.items():
            assert wire.is_closed(), name
            wire.close()
        wait_for(lambda: broker.output().count("it did not finish a frame") == len(waiting))
        named = broker.output().count(f"finish a frame; the generations served are {SERVED}")
        assert named == len(HALVES)


@pytest.mark.parametrize("beginning", [TLS_HELLO, HTTP, b"\xff" * 300, b"hello\n\n\n"])
def test_what_is_of_no_generation_is_answered_and_closed(
    shared_broker: BrokerProcess, beginning: bytes
) -> None:
    with Wire(shared_broker, login=False) as wire:
        wire.put(beginning)
        assert wire.answer().status != 0
        with suppress(Closed):
            wire.put(bytes(100_000))


def test_a_line_names_what_is_served(tmp_path: Path) -> None:
    with standing(tmp_path / "data", SMALL_POOL) as broker:
        with Wire(broker, login=False) as wire:
            wire.put(HTTP)
            assert wire.answer().status != 0
            wait_for(lambda: SERVED in broker.output())
        assert "its bytes are no request" in broker.output()


@pytest.mark.parametrize("filled", [1, 16, 48])
def test_checksums_that_are_filled_do_not_hide_a_header(
    shared_broker: BrokerProcess, filled: int
) -> None:
    """As a later client may do; an unknown code and what stands behind it tell."""
    with ConsensusWire(shared_broker, login=False) as wire:
        for code, payload in ((Code.PING, b""), (LaterCode.LOGIN_REGISTER, REGISTER)):
            frame = bytearray(wire.frame(code, payload))
            frame[:filled] = bytes([77]) * filled
            frame[4:8] = b"\xee" * 4
            wire.put(bytes(frame))
            assert wire.answer().status == 0


def test_an_unknown_code_stays_one(shared_broker: BrokerProcess) -> None:
    """A first frame that is no header gets its answer at once, however short it is."""
    with Wire(shared_broker, login=False) as wire:
        assert wire.request(0xEEEEEEEE, bytes(60)).status != 0
        assert wire.is_in_step()
