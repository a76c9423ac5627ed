"""How far a query is behind, from reports as Spark makes them."""

import json
import logging
from types import SimpleNamespace
from typing import Any

import pytest

from borzoi.spark import ProgressListener, lag
from borzoi.spark.positions import Partition, Position, to_json
from borzoi.spark.progress import summary

END = to_json({Partition("t", 0): Position(0, 40, 1, 1), Partition("u", 3): Position(5, 9, 1, 1)})
LATEST = to_json(
    {
        Partition("t", 0): Position(50, 50, 0, 1),
        Partition("t", 1): Position(7, 7, 0, 1),
        Partition("u", 3): Position(2, 2, 0, 1),
    }
)
OURS = {"description": "iggy", "endOffset": END, "latestOffset": LATEST}
PROGRESS = {
    "batchId": 3,
    "numInputRows": 1234,
    "processedRowsPerSecond": 4936.2,
    "durationMs": {"triggerExecution": 250},
    "sources": [OURS],
}


@pytest.mark.parametrize(
    "form", [dict, json.dumps, lambda one: SimpleNamespace(json=json.dumps(one))]
)
def test_rows_that_wait(form: Any) -> None:
    found = lag(form(PROGRESS))
    # A partition that was not read yet waits as a whole; one that was purged does not.
    assert found.by_partition == {("t", 0): 10, ("t", 1): 7, ("u", 3): 0}
    assert (found.total, found.largest) == (17, 10)


@pytest.mark.parametrize(
    "source",
    [
        {"endOffset": None, "latestOffset": None},
        {"endOffset": 5, "latestOffset": 9},
        {"endOffset": "{", "latestOffset": "x"},
        {"endOffset": {"t": {"0": 5}}, "latestOffset": {"t": {"0": 9}}},
        {},
    ],
)
def test_sources_of_others_have_no_lag_here(source: dict[str, Any]) -> None:
    assert lag({"sources": [source]}).total == 0
    assert lag({"sources": [source, OURS]}).total == 17


def test_texts_of_offsets_as_spark_passes_them() -> None:
    texts = {"endOffset": json.dumps(END), "latestOffset": json.dumps(LATEST)}
    assert lag({"sources": [texts]}).total == 17


def test_a_batch_in_one_line() -> None:
    assert summary(PROGRESS) == "batch 3: 1,234 rows in 250 ms (4,936 rows/s), 17 waiting"
    assert summary({"batchId": 0, "numInputRows": 0, "sources": []}).startswith("batch 0: 0 rows")


def test_a_listener_tells_how_a_query_ended(caplog: pytest.LogCaptureFixture) -> None:
    listener = ProgressListener()
    ended: list[Any] = [
        SimpleNamespace(id="q", exception="IGGY_DATA_LOSS: gone"),
        SimpleNamespace(id="q", exception=None),
    ]
    with caplog.at_level(logging.INFO, "borzoi.spark"):
        for event in ended:
            listener.onQueryTerminated(event)
    assert [(one.levelname, one.message) for one in caplog.records] == [
        ("ERROR", "query q failed: IGGY_DATA_LOSS: gone"),
        ("INFO", "query q ended"),
    ]
