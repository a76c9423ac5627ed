from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from borzoi.protocol.codes import Code
from borzoi.protocol.frame import (
    CONTROL_PAYLOAD_SIZE_MAX,
    OK,
    REQUEST_HEADER,
    Frame,
    FrameTooBig,
    FrameTooShort,
    Need,
    cut_frame,
    encode_request,
    encode_response,
    frame_size,
)

Request = tuple[int, bytes]
requests = st.lists(st.tuples(st.integers(0, 2**32 - 1), st.binary(max_size=60)), max_size=8)
EVERYTHING = 2**32 - 1


def frames_in_pieces(wire: bytes, chunk: int) -> Iterator[Request]:
    """A reader as simple as can be: collect pieces, cut what is whole."""
    buffer = bytearray()
    for at in range(0, len(wire), chunk):
        buffer += wire[at : at + chunk]
        start = 0
        with memoryview(buffer) as view:
            while isinstance(frame := cut_frame(view, start, len(view), EVERYTHING), Frame):
                start += frame_size(frame.payload)
                yield frame.code, bytes(frame.payload)
                frame.payload.release()
            assert frame.total > len(view) - start
        del buffer[:start]
    assert not buffer


@given(sent=requests, chunk=st.integers(1, 40))
def test_frames_do_not_depend_on_how_tcp_cut_them(sent: list[Request], chunk: int) -> None:
    wire = b"".join(encode_request(code, payload) for code, payload in sent)
    assert list(frames_in_pieces(wire, chunk)) == sent


def test_a_frame_in_the_middle_of_a_buffer_is_not_copied() -> None:
    buffer = bytearray(b"???" + encode_request(5, b"abc") + b"!!!")
    frame = cut_frame(memoryview(buffer), 3, len(buffer), 100)
    assert isinstance(frame, Frame)
    buffer[3 + 8] = ord("X")
    assert bytes(frame.payload) == b"Xbc"


def test_bytes_behind_end_do_not_count() -> None:
    wire = encode_request(5, b"abc")
    view = memoryview(wire)
    for end in range(len(wire)):
        assert cut_frame(view, 0, end, 100) == Need(8 if end < 8 else 11)


@pytest.mark.parametrize("length", [0, 1, 2, 3])
def test_a_length_that_does_not_cover_the_code(length: int) -> None:
    wire = REQUEST_HEADER.pack(length, Code.PING)
    with pytest.raises(FrameTooShort):
        cut_frame(memoryview(wire), 0, len(wire), 100)


def test_the_largest_frame_and_one_byte_more() -> None:
    wire = encode_request(Code.SEND_MESSAGES, bytes(96))
    assert isinstance(cut_frame(memoryview(wire), 0, len(wire), 100), Frame)
    with pytest.raises(FrameTooBig):
        cut_frame(memoryview(wire), 0, len(wire), 99)


@pytest.mark.parametrize(("code", "fits"), [(Code.PING, False), (Code.SEND_MESSAGES, True)])
def test_only_sending_may_exceed_the_control_limit(code: Code, fits: bool) -> None:
    at_limit = REQUEST_HEADER.pack(4 + CONTROL_PAYLOAD_SIZE_MAX, code)
    above = REQUEST_HEADER.pack(4 + CONTROL_PAYLOAD_SIZE_MAX + 1, code)
    assert isinstance(cut_frame(memoryview(at_limit), 0, 8, EVERYTHING), Need)
    if fits:
        assert isinstance(cut_frame(memoryview(above), 0, 8, EVERYTHING), Need)
    else:
        with pytest.raises(FrameTooBig):
            cut_frame(memoryview(above), 0, 8, EVERYTHING)


def test_responses() -> None:
    assert bytes(8) == OK
    assert encode_response(0, b"ab") == bytes.fromhex("00000000 02000000 6162")
    assert encode_response(40) == bytes.fromhex("28000000 00000000")
