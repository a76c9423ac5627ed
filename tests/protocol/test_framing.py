from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from borzoi.protocol.codes import Code
from borzoi.protocol.errors import InvalidCommand
from borzoi.protocol.framing import (
    NOT_WHOLE,
    OK,
    REQUEST_HEADER,
    ClassicFraming,
    Frame,
    Need,
    Refused,
    encode_request,
    encode_response,
)

Request = tuple[int, bytes]
requests = st.lists(st.tuples(st.integers(0, 2**32 - 1), st.binary(max_size=60)), max_size=8)
FRAMING = ClassicFraming()


def frames_in_pieces(wire: bytes, chunk: int) -> Iterator[Request]:
    """A reader as simple as can be: collect pieces, cut what is whole."""
    buffer = bytearray()
    for at in range(0, len(wire), chunk):
        buffer += wire[at : at + chunk]
        start = 0
        with memoryview(buffer) as view:
            while isinstance(frame := FRAMING.cut(view, start, len(view)), Frame):
                start += frame.total
                yield frame.code, bytes(frame.payload)
                frame.payload.release()
            assert isinstance(frame, Need)
            assert frame.total > len(view) - start
        del buffer[:start]
    assert not buffer


@given(sent=requests, chunk=st.integers(1, 40))
def test_frames_do_not_depend_on_how_tcp_cut_them(sent: list[Request], chunk: int) -> None:
    wire = b"".join(encode_request(code, payload) for code, payload in sent)
    assert list(frames_in_pieces(wire, chunk)) == sent


def test_a_frame_in_the_middle_of_a_buffer_is_not_copied() -> None:
    buffer = bytearray(b"???" + encode_request(5, b"abc") + b"!!!")
    frame = FRAMING.cut(memoryview(buffer), 3, len(buffer))
    assert isinstance(frame, Frame)
    assert frame.total == 11
    buffer[3 + 8] = ord("X")
    assert bytes(frame.payload) == b"Xbc"


def test_bytes_behind_end_do_not_count() -> None:
    wire = encode_request(5, b"abc")
    view = memoryview(wire)
    for end in range(len(wire)):
        assert FRAMING.cut(view, 0, end) == (Need(8) if end < 8 else Need(11, 5))


@pytest.mark.parametrize("length", [0, 1, 2, 3])
def test_a_length_that_does_not_cover_the_code(length: int) -> None:
    """Only the header's eight bytes are consumed."""
    wire = REQUEST_HEADER.pack(length, Code.PING)
    assert FRAMING.cut(memoryview(wire), 0, len(wire)) == Refused(
        8, encode_response(InvalidCommand.status)
    )


def test_a_hostile_length_is_returned_and_not_waited_for() -> None:
    wire = REQUEST_HEADER.pack(2**32 - 1, Code.PING)
    assert FRAMING.cut(memoryview(wire), 0, len(wire)) == Need(2**32 + 3, Code.PING)


@given(data=st.binary(max_size=30) | st.binary(max_size=20).map(lambda p: encode_request(7, p)))
def test_whole_is_what_cut_says_of_one_frame(data: bytes) -> None:
    view = memoryview(b"?" + data + b"?")
    cut = FRAMING.cut(view, 1, len(view) - 1)
    whole = FRAMING.whole(view, 1, len(view) - 1)
    if isinstance(cut, Frame) and cut.total == len(data):
        assert whole == cut.code
    else:
        assert whole == NOT_WHOLE


def test_responses() -> None:
    assert bytes(8) == OK
    assert encode_response(0, b"ab") == bytes.fromhex("00000000 02000000 6162")
    assert encode_response(40) == bytes.fromhex("28000000 00000000")
    assert FRAMING.status(0) == OK
    assert FRAMING.status(40) == encode_response(40)
    assert FRAMING.success(2) + b"ab" == encode_response(0, b"ab")
    polled = bytes.fromhex("03000000 0500000000000000 01000000")
    assert FRAMING.polled(3, 5, 1, 2) + b"ab" == encode_response(0, polled + b"ab")
