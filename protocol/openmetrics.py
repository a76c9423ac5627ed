"""The text that Prometheus reads: OpenMetrics 1.0, as bytes from values. Pure.

    # TYPE borzoi_topic_size_bytes gauge
    # UNIT borzoi_topic_size_bytes bytes
    # HELP borzoi_topic_size_bytes Bytes of messages in a topic.
    borzoi_topic_size_bytes{stream="1",topic="2"} 7000
    # EOF

Written here instead of by prometheus-client: that needs 60 ms and 2 MB in every worker at its
start. It makes 10,000 rows in one go of 200 ms, in which a shard would serve no client. This gives
the text in pieces, between which the caller can do something else. The tests read it with that
package's strict parser.

Always: the pieces of `exposition` joined are one text of whole lines that ends with `# EOF`.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from itertools import accumulate
from typing import Final, NamedTuple, TypeAlias

CONTENT_TYPE: Final = "application/openmetrics-text; version=1.0.0; charset=utf-8"

UNITS: Final = ("bytes", "seconds", "ratio")
"""A family whose name ends with one of these says so once more, as the format wants it."""

ROWS_PER_PIECE: Final = 128
END: Final = b"# EOF\n"


class Distribution(NamedTuple):
    """A histogram: how many lie below each bound and not below the one before, then the rest."""

    bounds: Sequence[float]
    counts: Sequence[int]
    sum: float


Row: TypeAlias = tuple[tuple[str | int, ...], float | Distribution]
"""Values of the labels, and the figure: a distribution in rows of a histogram."""


class MetricKind(Enum):
    """What a figure means, and what its samples are called beyond their family."""

    GAUGE = "gauge"
    COUNTER = "counter"
    INFO = "info"
    HISTOGRAM = "histogram"

    @property
    def suffix(self) -> str:
        """What follows the name of the family in each of its samples."""
        return {MetricKind.COUNTER: "_total", MetricKind.INFO: "_info"}.get(self, "")


class Family(NamedTuple):
    """Figures of one name and meaning. Every row has one value for each label."""

    name: str
    kind: MetricKind
    help: str
    labels: tuple[str, ...]
    rows: Iterable[Row]


def exposition(families: Iterable[Family]) -> Iterator[bytes]:
    """The whole text in pieces of at most ROWS_PER_PIECE rows."""
    for family in families:
        lines = [_head(family)]
        for line in _samples(family):
            lines.append(line)
            if len(lines) >= ROWS_PER_PIECE:
                yield "".join(lines).encode()
                lines = []
        if lines:
            yield "".join(lines).encode()
    yield END


def _head(family: Family) -> str:
    name = family.name
    text = f"# TYPE {name} {family.kind.value}\n"
    unit = name.rpartition("_")[2]
    if unit in UNITS:
        text += f"# UNIT {name} {unit}\n"
    return text + f"# HELP {name} {escaped(family.help)}\n"


def _samples(family: Family) -> Iterator[str]:
    name = family.name + family.kind.suffix
    if not family.labels:
        for _, value in family.rows:
            assert not isinstance(value, Distribution), "a histogram has labels"
            yield f"{name} {number(value)}\n"
        return
    if family.kind is MetricKind.HISTOGRAM:
        yield from _buckets(family)
        return
    # One pattern for all rows: there may be thousands of them.
    pattern = name + "{" + ",".join(f'{label}="%s"' for label in family.labels) + "} %s\n"
    for values, value in family.rows:
        assert not isinstance(value, Distribution), "only a histogram has these"
        texts = [escaped(one) if isinstance(one, str) else one for one in values]
        yield pattern % (*texts, number(value))


def _buckets(family: Family) -> Iterator[str]:
    for values, found in family.rows:
        assert isinstance(found, Distribution), "a histogram has nothing else"
        texts = [escaped(one) if isinstance(one, str) else str(one) for one in values]
        labels = ",".join(
            f'{label}="{text}"' for label, text in zip(family.labels, texts, strict=True)
        )
        below = list(accumulate(found.counts))
        bounds = [*map(number, found.bounds), "+Inf"]
        for bound, count in zip(bounds, below, strict=True):
            yield f'{family.name}_bucket{{{labels},le="{bound}"}} {count}\n'
        yield f"{family.name}_count{{{labels}}} {below[-1]}\n"
        yield f"{family.name}_sum{{{labels}}} {number(found.sum)}\n"


def escaped(text: str) -> str:
    """Text between quotes, or of a help line.

    Names that are no UTF-8 hold surrogates, which cannot be encoded: they show as question marks.
    """
    text = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return text.encode("utf-8", "replace").decode()


def number(value: float) -> str:
    """A figure as the format writes it."""
    if isinstance(value, int):
        return str(value)
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return repr(value)
