"""The end of a batch is planned while partitions are purged. The broker is a list of lives."""

from collections.abc import Iterable, Mapping
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import LongType, StructField, StructType

from borzoi.spark import stream_reader
from borzoi.spark.failures import DataLoss
from borzoi.spark.option_table import read_options
from borzoi.spark.positions import Known, Partition, Position, StreamIds, from_json, to_json
from borzoi.spark.stream_reader import LOOKS_MAX, IggyStreamReader

P0 = Partition("t", 0)
SCHEMA = StructType([StructField("offset", LongType())])
RAW = {"server": "h:1", "username": "u", "password": "p", "stream": "s", "topic": "t"}
START = {P0: Position(0, 5, 104, 1)}  # five rows of the old life were read


class Lives:
    """One partition whose life ends between two looks; a life is when its rows were written."""

    ids = StreamIds("s", 1, {"t": 1})

    def __init__(self, *lives: range, looks: int) -> None:
        """After so many `looks`, of either kind, the next life begins."""
        self._lives, self._looks = lives, looks
        self.count = 0

    def known(self, *, required: bool = True) -> dict[Partition, Known]:
        return {P0: Known(0, len(self._look()), 0, 1)}

    def times(self, rows: Iterable[tuple[Partition, int]]) -> Mapping[Partition, int]:
        life = self._look()
        return {partition: life[offset] for partition, offset in rows if offset < len(life)}

    def _look(self) -> range:
        self.count += 1
        return self._lives[min((self.count - 1) // self._looks, len(self._lives) - 1)]


def planned(
    view: Lives, monkeypatch: pytest.MonkeyPatch, **options: str
) -> dict[Partition, Position]:
    monkeypatch.setattr(stream_reader, "BrokerView", lambda *_: view)
    reader = IggyStreamReader(read_options({**RAW, **options}, streaming=True), SCHEMA)
    end: dict[str, Any] = reader.latestOffset(to_json(START), ReadAllAvailable())
    return from_json(end)


OLD, NEW, SHORT = range(100, 120), range(500, 530), range(500, 503)


@pytest.mark.parametrize("looks", [1, 2])
@pytest.mark.parametrize("new", [NEW, SHORT])
def test_a_life_that_ends_while_a_batch_is_planned(
    looks: int, new: range, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(DataLoss, match="was purged"):
        planned(Lives(OLD, new, looks=looks), monkeypatch)
    end = planned(Lives(OLD, new, looks=looks), monkeypatch, failOnDataLoss="false")
    assert end[P0].begin == 0
    assert end[P0].timestamp == new[end[P0].next - 1], "tasks will compare with this row"


def test_a_life_that_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    view = Lives(OLD, looks=1)
    assert planned(view, monkeypatch) == {P0: Position(5, 20, 119, 1)}
    assert view.count == 3, "what there is, its last row, and the one that was read last"


def test_looking_again_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    lives = [range(100, 100 + count) for count in range(3 * LOOKS_MAX + 9, 5, -1)]
    view = Lives(*lives, looks=1)
    planned(view, monkeypatch)
    assert view.count == 3 * LOOKS_MAX
