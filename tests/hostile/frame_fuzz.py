"""Mutated frames against the decoders, in this process.

    python -m tests.hostile.frame_fuzz --frames 10000000 [--first 0] [--generation classic]

The claim: garbage in gives a BrokerError or a frame that is none, never anything else; what is
answered then is a whole answer; and a batch that was accepted can also be stamped by the owner of
its partition and shown to clients of every generation. Frames are cut by the machine that the TCP
door uses, and admitted by its rule. A frame that breaks the claim is written to seeds/ and replayed
by the suite from then on.
"""

import argparse
import sys
import time
from contextlib import suppress
from typing import Final, NamedTuple

from borzoi.protocol.batch import stamp_batch
from borzoi.protocol.consensus.evictions import HEADER_SIZE
from borzoi.protocol.edges import BARE_KEYS_FORM, CONSENSUS_FORM, HYBRID_FORM, OLD_FORM
from borzoi.protocol.errors import BrokerError
from borzoi.protocol.framing import (
    CONTROL_PAYLOAD_SIZE_MAX,
    NOT_WHOLE,
    Bound,
    Frame,
    Framing,
    Refused,
)
from borzoi.protocol.generations import CLASSIC, GENERATIONS, Generation, decode_reply
from borzoi.protocol.send_messages import SendMessages
from borzoi.shards.admission.frames import ConnectionLimits, refusal
from tests.hostile.dialects import decoder_of
from tests.hostile.frames_of import FRAMES_OF
from tests.hostile.mutation import ANSWERS, Mutant, mutant
from tests.hostile.seeds import Seed, write_seeds

LIMITS: Final = ConnectionLimits(
    frame_size_max=1024 * 1024,
    control_frame_size_max=CONTROL_PAYLOAD_SIZE_MAX,
    frame_size_max_before_login=1024,
    login_timeout_s=1.0,
    frame_timeout_s=1.0,
    write_timeout_s=1.0,
    read_rate_min=1,
)
NAMES: Final = frozenset({None, *GENERATIONS})
ANSWER_EVERY: Final = 4  # one frame in so many is an answer, for the client's decoders
REPORT_EVERY: Final = 100_000
CONVERTED_GROWTH_MAX: Final = 3
"""The smallest message of the oldest layout has 25 bytes, and 65 when it is stored."""


class Outcome(NamedTuple):
    """Of a run."""

    frames: int
    accepted: int
    slowest_s: float
    slowest: int


def seed_of(number: int, generation: Generation = CLASSIC) -> Seed:
    """The frame of a number: a request, or an answer that a client reads."""
    if generation is not CLASSIC:
        return Seed(generation.name, Mutant(0, FRAMES_OF[generation.name](number)))
    if number % ANSWER_EVERY == 0:
        return Seed("answer", mutant(number, ANSWERS))
    return Seed("request", mutant(number))


def try_frame(seed: Seed) -> bool:
    """Whether it is accepted. Raises what must not be raised."""
    kind, mutated = seed
    if kind == "answer":
        return try_answer(mutated)
    if kind == "request":
        return try_bytes(mutated.frame)
    return try_bytes(mutated.payload, GENERATIONS[kind])


def try_bytes(data: bytes, generation: Generation = CLASSIC) -> bool:
    """Cut, decode, stamp and show what lies at the start of the bytes."""
    view = memoryview(bytearray(data))
    framing = generation.framing()
    if len(data) % 2:
        # As after a login: requests of other sessions are refused.
        framing.adopt(Bound(2, bytes(view[128:144]).ljust(16, b"\1")))
    cut = framing.cut(view, 0, len(view))
    whole = framing.whole(view, 0, len(view))
    if isinstance(cut, Frame) and cut.total == len(view):
        assert whole == cut.code
    else:
        assert whole == NOT_WHOLE
    if isinstance(cut, Refused):
        check_answer(generation, cut.answer)
        return False
    if cut.code is None:
        return False
    payload_size = cut.total - framing.header_size
    refused = refusal(LIMITS, cut.code, cut.total, payload_size, without_login=None)
    if refused is not None or not isinstance(cut, Frame):
        return False
    return try_payload(generation, framing, cut)


def try_payload(generation: Generation, framing: Framing, cut: Frame) -> bool:
    """Decode, stamp and show; let it tell its generation where that is still unknown."""
    for one in GENERATIONS.values():
        if one.tells is not None:
            with suppress(BrokerError):
                assert one.tells(cut.code, cut.payload) in NAMES
    decode = decoder_of(generation, cut.code)
    if decode is None:
        return False
    try:
        command = decode(cut.payload)
    except BrokerError as error:
        check_answer(generation, framing.status(error.status))
        return False
    if isinstance(command, SendMessages):
        check_stamping(cut, command, converted=generation.shows is not None)
        check_showing(command)
    return True


def check_answer(generation: Generation, answer: bytes) -> None:
    """What the framing says is as long as it says."""
    if generation.has_sessions:
        assert len(answer) == int.from_bytes(answer[48:52], "little") >= HEADER_SIZE
    else:
        # Only an error in a framing with texts has something behind its header.
        head = len(CLASSIC.framing().status(1))
        behind = len(answer) - head
        assert behind == int.from_bytes(answer[4:head], "little")
        assert behind == 0 or generation.framing is not CLASSIC.framing


def try_answer(mutated: Mutant) -> bool:
    if mutated.code not in CLASSIC.replies:
        return False
    try:
        decode_reply(mutated.code, memoryview(mutated.payload))
    except BrokerError:
        return False
    return True


def check_stamping(cut: Frame, command: SendMessages, *, converted: bool) -> None:
    """What the receiver let through must not surprise the owner."""
    size = len(cut.payload) * (CONVERTED_GROWTH_MAX if converted else 1)
    assert command.batch.nbytes <= size
    entries = stamp_batch(
        command.batch,
        command.message_count,
        0,
        1,
        bytes,
        segment_first_offset=0,
        position=0,
    )
    assert len(entries) == 16 * command.message_count <= size


def check_showing(command: SendMessages) -> None:
    """What was stored must not surprise a reader of another generation."""
    for form in (CONSENSUS_FORM, OLD_FORM, HYBRID_FORM, BARE_KEYS_FORM):
        shown = form.whole([command.batch], 0)
        assert len(shown) == form.size([command.batch], 0)
        assert b"".join(form.pieces([command.batch], 0)) == shown


def run(
    first: int, count: int, generation: Generation = CLASSIC, *, report: bool = False
) -> Outcome:
    """Try the frames of `count` numbers; AssertionError names the file of the first failure."""
    accepted = slowest = 0
    slowest_s = 0.0
    for number in range(first, first + count):
        seed = seed_of(number, generation)
        began = time.perf_counter()
        try:
            accepted += try_frame(seed)
        except Exception as error:
            name = f"frame-{generation.name}-{number}"
            path = write_seeds(name, f"{type(error).__name__}: {error}", [seed])
            raise AssertionError(f"frame {number}: see {path.name}") from error
        took_s = time.perf_counter() - began
        if took_s > slowest_s:
            slowest_s, slowest = took_s, number
        if report and (number - first + 1) % REPORT_EVERY == 0:
            print(f"{number - first + 1} frames, {accepted} accepted", file=sys.stderr)
    return Outcome(count, accepted, slowest_s, slowest)


def main() -> None:
    parser = argparse.ArgumentParser(description="Mutated frames against the decoders.")
    parser.add_argument("--frames", type=int, default=1_000_000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--generation", choices=sorted(FRAMES_OF), default=CLASSIC.name)
    arguments = parser.parse_args()
    began = time.monotonic()
    generation = GENERATIONS[arguments.generation]
    outcome = run(arguments.first, arguments.frames, generation, report=True)
    took_s = time.monotonic() - began
    print(
        f"{outcome.frames} {generation.name} frames from {arguments.first} in {took_s:.0f} s, "
        f"{outcome.accepted} accepted, the slowest decode (frame {outcome.slowest}) took "
        f"{outcome.slowest_s * 1000:.2f} ms: only declared errors"
    )


if __name__ == "__main__":
    main()
