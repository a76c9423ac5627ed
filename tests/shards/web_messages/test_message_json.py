import json

import pytest

from borzoi.protocol.message import Message, encode_messages
from borzoi.shards.web_messages.message_json import polled_pieces
from borzoi.shards.web_messages.octets import lines_of

STORED = encode_messages(
    [Message(b"one", id=2**128 - 1, user_headers=b"raw", offset=0), Message(b"second", offset=1)]
)


def cuts() -> list[list[memoryview]]:
    """The same bytes in one view, and cut at every place: the ends of mapped windows do so."""
    view = memoryview(STORED)
    return [[view], *([view[:at], view[at:]] for at in range(1, len(STORED)))]


@pytest.mark.parametrize("views", cuts())
def test_messages_may_be_cut_by_their_views(views: list[memoryview]) -> None:
    polled = json.loads(b"".join(polled_pieces(0, 1, 2, views)))
    lines = [json.loads(line) for line in b"".join(lines_of(views)).splitlines()]
    assert polled["messages"] == lines
    assert [one["header"]["offset"] for one in lines] == [0, 1]
    assert [one["payload"] for one in lines] == ["b25l", "c2Vjb25k"]
    assert lines[0]["header"]["id"] == 2**128 - 1
    assert lines[0]["user_headers"] == "cmF3"
