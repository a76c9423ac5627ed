"""Mutated frames against the decoders, in this process.

    python -m tests.hostile.frame_fuzz --frames 10000000 [--first 0]

The claim: garbage in gives a BrokerError or a frame that is none, never anything else; and a batch
that was accepted can also be stamped by the owner of its partition. Frames are cut by the machine
that the TCP door uses, and admitted by its rule. A frame that breaks the claim is written to seeds/
and replayed by the suite from then on.
"""

import argparse
import sys
import time
from typing import Final, NamedTuple

from borzoi.protocol.batch import stamp_batch
from borzoi.protocol.errors import BrokerError
from borzoi.protocol.framing import (
    CONTROL_PAYLOAD_SIZE_MAX,
    NOT_WHOLE,
    ClassicFraming,
    Frame,
    Refused,
)
from borzoi.protocol.generations import CLASSIC, decode_reply
from borzoi.protocol.send_messages import SendMessages
from borzoi.shards.admission.frames import ConnectionLimits, refusal
from tests.hostile.mutation import ANSWERS, Mutant, mutant
from tests.hostile.seeds import Seed, write_seeds

FRAMING: Final = ClassicFraming()
LIMITS: Final = ConnectionLimits(
    frame_size_max=1024 * 1024,
    control_frame_size_max=CONTROL_PAYLOAD_SIZE_MAX,
    frame_size_max_before_login=1024,
    login_timeout_s=1.0,
    frame_timeout_s=1.0,
    write_timeout_s=1.0,
    read_rate_min=1,
)
ANSWER_EVERY: Final = 4  # one frame in so many is an answer, for the client's decoders
REPORT_EVERY: Final = 100_000


class Outcome(NamedTuple):
    """Of a run."""

    frames: int
    accepted: int
    slowest_s: float
    slowest: int


def seed_of(number: int) -> Seed:
    """The frame of a number: a request, or an answer that a client reads."""
    if number % ANSWER_EVERY == 0:
        return Seed("answer", mutant(number, ANSWERS))
    return Seed("request", mutant(number))


def try_frame(seed: Seed) -> bool:
    """Whether it is accepted. Raises what must not be raised."""
    kind, mutated = seed
    if kind == "answer":
        return try_answer(mutated)
    return try_bytes(mutated.frame)


def try_bytes(data: bytes) -> bool:
    """Cut, decode, and stamp what lies at the start of the bytes."""
    view = memoryview(bytearray(data))
    cut = FRAMING.cut(view, 0, len(view))
    whole = FRAMING.whole(view, 0, len(view))
    if isinstance(cut, Frame) and cut.total == len(view):
        assert whole == cut.code
    else:
        assert whole == NOT_WHOLE
    if isinstance(cut, Refused) or cut.code is None:
        return False
    payload_size = cut.total - FRAMING.header_size
    refused = refusal(LIMITS, cut.code, cut.total, payload_size, without_login=None)
    if refused is not None or not isinstance(cut, Frame):
        return False
    decode = CLASSIC.requests.get(cut.code)
    if decode is None:
        return False
    try:
        command = decode(cut.payload)
    except BrokerError:
        return False
    if isinstance(command, SendMessages):
        check_stamping(cut, command)
    return True


def try_answer(mutated: Mutant) -> bool:
    if mutated.code not in CLASSIC.replies:
        return False
    try:
        decode_reply(mutated.code, memoryview(mutated.payload))
    except BrokerError:
        return False
    return True


def check_stamping(cut: Frame, command: SendMessages) -> None:
    """What the receiver let through must not surprise the owner."""
    size = len(cut.payload)
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


def run(first: int, count: int, *, report: bool = False) -> Outcome:
    """Try the frames of `count` numbers; AssertionError names the file of the first failure."""
    accepted = slowest = 0
    slowest_s = 0.0
    for number in range(first, first + count):
        seed = seed_of(number)
        began = time.perf_counter()
        try:
            accepted += try_frame(seed)
        except Exception as error:
            path = write_seeds(f"frame-{number}", f"{type(error).__name__}: {error}", [seed])
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
    arguments = parser.parse_args()
    began = time.monotonic()
    outcome = run(arguments.first, arguments.frames, report=True)
    took_s = time.monotonic() - began
    print(
        f"{outcome.frames} frames from {arguments.first} in {took_s:.0f} s, "
        f"{outcome.accepted} accepted, the slowest decode (frame {outcome.slowest}) took "
        f"{outcome.slowest_s * 1000:.2f} ms: only declared errors"
    )


if __name__ == "__main__":
    main()
