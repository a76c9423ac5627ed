"""The text of metrics, read back by the strict parser of another project."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from borzoi.protocol.openmetrics import (
    ROWS_PER_PIECE,
    Family,
    MetricKind,
    Row,
    escaped,
    exposition,
    number,
)
from tests.scraped import parsed


def text_of(*families: Family) -> str:
    return b"".join(exposition(families)).decode()


def test_every_kind_as_it_is_written() -> None:
    assert text_of(
        Family("messages", MetricKind.GAUGE, "total count of messages", (), [((), 7)]),
        Family(
            "sent_bytes", MetricKind.COUNTER, 'sent, "all"', ("shard",), [((0,), 1.5), ((1,), 2)]
        ),
        Family("build", MetricKind.INFO, "which", ("version",), [(("0.1",), 1)]),
        Family("empty", MetricKind.GAUGE, "nothing yet", ("x",), []),
    ) == (
        "# TYPE messages gauge\n"
        "# HELP messages total count of messages\n"
        "messages 7\n"
        "# TYPE sent_bytes counter\n"
        "# UNIT sent_bytes bytes\n"
        '# HELP sent_bytes sent, \\"all\\"\n'
        'sent_bytes_total{shard="0"} 1.5\n'
        'sent_bytes_total{shard="1"} 2\n'
        "# TYPE build info\n"
        "# HELP build which\n"
        'build_info{version="0.1"} 1\n'
        "# TYPE empty gauge\n"
        "# HELP empty nothing yet\n"
        "# EOF\n"
    )


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (2**64 - 1, "18446744073709551615"),
        (0.25, "0.25"),
        (math.inf, "+Inf"),
        (-math.inf, "-Inf"),
        (math.nan, "NaN"),
    ],
)
def test_figures(value: float, text: str) -> None:
    assert number(value) == text


# Whatever a client may call its stream; a surrogate is what is left of bytes that are no UTF-8.
NAMES = st.text(st.characters() | st.sampled_from('\\"\n\r\t{},=# \udc80'), max_size=20)


@given(NAMES, NAMES)
def test_any_name_reads_back(stream: str, topic: str) -> None:
    text = text_of(Family("m", MetricKind.GAUGE, "help", ("s", "t"), [((stream, topic), 1)]))
    (family,) = parsed(text)
    (sample,) = family.samples
    assert sample.labels == {"s": readable(stream), "t": readable(topic)}


def readable(name: str) -> str:
    return name.encode("utf-8", "replace").decode()


def test_a_name_cannot_forge_a_line() -> None:
    forged = escaped('a"} 1\nmessages 0')
    assert forged == 'a\\"} 1\\nmessages 0'


def test_pieces_are_bounded_and_join_to_one_text() -> None:
    rows: list[Row] = [((place,), place) for place in range(3 * ROWS_PER_PIECE)]
    pieces = list(exposition([Family("m", MetricKind.GAUGE, "many", ("place",), rows)]))
    assert max(piece.count(b"\n") for piece in pieces) <= ROWS_PER_PIECE + 1
    (family,) = parsed(b"".join(pieces).decode())
    assert [sample.value for sample in family.samples] == [value for _, value in rows]
