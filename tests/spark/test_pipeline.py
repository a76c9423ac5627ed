"""Pipelines and examples, end to end: topic, Spark, files, and back."""

import json
import os
import signal
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from borzoi.main import main
from borzoi.spark.examples import backfill, windows
from borzoi.spark.failures import InvalidOption
from borzoi.spark.pipeline import (
    BrokerTopic,
    check_target,
    error_line,
    follow,
    interrupt_noted,
    write_id_of,
)
from tests.spark.conftest import STREAM, Queries

pytestmark = pytest.mark.slow


def place_of(queries: Queries, topic: str) -> BrokerTopic:
    options = {name: text for name, text in queries.broker.options.items() if name != "stream"}
    return BrokerTopic(options, STREAM, topic)


def borzoi(queries: Queries, *arguments: str) -> list[str]:
    """The lines that a command says; it takes the session that is there."""
    environ = {"BORZOI_SERVER": f"iggy://iggy:iggy@{queries.broker.process.address}"}
    said = CliRunner().invoke(main, arguments, env=environ)
    assert said.exit_code == 0, said.output
    return said.output.splitlines()


def test_a_topic_into_files_and_back(queries: Queries, tmp_path: Path) -> None:
    source, target = queries.broker.topic(2), queries.broker.topic(3)
    rows = [json.dumps({"id": number, "name": f"n{number}"}) for number in range(20)]
    queries.broker.send(source, 0, *rows[:10])
    queries.broker.send(source, 1, *rows[10:], "no JSON")
    lake = tmp_path / "lake"
    ingest = ["pipeline", "to-files", f"{STREAM}/{source}", "--to", str(lake)]
    ingest += ["--payload-schema", "id bigint, name string"]
    line, last = borzoi(queries, *ingest)
    assert line.startswith("batch 0: 21 rows in ")
    assert line.endswith(", 0 waiting")
    assert last == f"21 rows written to {lake}"
    assert borzoi(queries, *ingest) == [f"0 rows written to {lake}"], "all of it is there already"
    found = queries.spark.read.parquet(str(lake))
    assert {"topic", "date", "value"} <= set(found.columns)
    assert len(list(lake.glob(f"topic={source}/date=*"))) == 1
    values = found.where("value.id is not null").select("value.id", "value.name").collect()
    assert sorted((row.id, row.name) for row in values) == [(n, f"n{n}") for n in range(20)]
    assert found.count() == 21

    lines, csv = tmp_path / "rows.jsonl", tmp_path / "rows.csv"
    lines.write_text("\n".join(rows))
    csv.write_text("a,b\n1,x\n")
    send = ("pipeline", "to-topic", f"{STREAM}/{target}")
    assert borzoi(queries, *send, str(lines), "--key", "name") == ["20 messages sent"]
    assert borzoi(queries, *send, str(csv)) == ["1 messages sent"]
    sent = [json.loads(bytes(row.payload)) for row in queries.read(target).collect()]
    assert sorted(one["id"] for one in sent if "id" in one) == list(range(20))
    assert {"a": 1, "b": "x"} in sent


def test_directories_in_which_rows_would_be_left_out_or_hidden(tmp_path: Path) -> None:
    target, checkpoint = tmp_path / "lake", tmp_path / "lake" / "_checkpoint"
    check_target(str(target), str(checkpoint))
    checkpoint.mkdir(parents=True)
    check_target(str(target), str(checkpoint))
    (target / "old.parquet").touch()
    with pytest.raises(InvalidOption, match="has files that no stream wrote"):
        check_target(str(target), str(checkpoint))
    (target / "_spark_metadata").mkdir()
    with pytest.raises(InvalidOption, match="was written with another checkpoint"):
        check_target(str(target), str(checkpoint))
    (checkpoint / "metadata").touch()
    check_target(str(target), str(checkpoint))
    check_target("s3://bucket/lake", str(checkpoint))


def test_rows_get_other_ids_when_their_file_has_changed(tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    file.write_text("a\n1\n")
    files = [str(file), "s3://bucket/*.csv"]
    first = write_id_of(files)
    assert write_id_of(files[::-1]) == first
    file.write_text("a\n1\n2\n")
    assert write_id_of(files) != first


def test_windows_close_behind_the_watermark(queries: Queries, tmp_path: Path) -> None:
    topic = queries.broker.topic(1)

    def event(kind: str, minute: int) -> str:
        return json.dumps({"kind": kind, "at": f"2030-01-31T12:{minute:02}:30Z"})

    place = place_of(queries, topic)
    queries.broker.send(topic, 0, event("a", 0), event("a", 0), event("b", 1), event("a", 30))
    assert windows.run(queries.spark, place, str(tmp_path / "out")) == 4
    found = queries.spark.read.parquet(str(tmp_path / "out"))
    rows = sorted((row.start.minute, row.kind, row["count"]) for row in found.collect())
    assert rows == [(0, "a", 2), (1, "b", 1)], "minute 30 may still get more"


def test_a_range_of_time_is_read_again(queries: Queries, tmp_path: Path) -> None:
    topic = queries.broker.filled(5)
    middle = datetime.fromtimestamp(time.time(), UTC)
    queries.broker.send(topic, 0, *(b"late" for _ in range(3)))
    place, out = place_of(queries, topic), str(tmp_path / "out")
    ends = (middle.isoformat(), "2200-01-01T00:00:00Z")
    assert backfill.run(queries.spark, place, out, *ends) == 3
    assert backfill.run(queries.spark, place, out, *ends) == 3
    found = queries.spark.read.parquet(out).select("offset").collect()
    assert sorted(row.offset for row in found) == [5, 6, 7]


class Endless:
    """A query that never ends by itself, and whose second look is interrupted by Ctrl-C."""

    def __init__(self) -> None:
        self.looks = 0
        self.stops = 0
        self.recentProgress: list[Any] = []
        self.awaitTermination = self._look

    def _look(self, _timeout: int) -> bool:
        self.looks += 1
        report = {"batchId": self.looks, "numInputRows": 5, "sources": []}
        self.recentProgress.append(Report(report, json=json.dumps(report)))
        if self.looks == 2:
            os.kill(os.getpid(), signal.SIGINT)
        return False

    def stop(self) -> None:
        self.stops += 1


class Report(dict[str, Any]):
    def __init__(self, fields: dict[str, Any], json: str) -> None:
        super().__init__(fields)
        self.json = json


def test_an_interrupt_waits_until_no_call_to_spark_runs() -> None:
    query: Any = Endless()
    said: list[str] = []
    before = signal.getsignal(signal.SIGINT)
    assert follow(query, said.append) == 10
    assert (query.looks, query.stops) == (2, 1)
    assert [line.split(":")[0] for line in said] == ["batch 1", "batch 2", "stopping"]
    assert signal.getsignal(signal.SIGINT) is before
    with interrupt_noted() as noted:
        os.kill(os.getpid(), signal.SIGINT)
        assert noted.is_set()
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)


def test_the_commands_are_there_and_errors_are_one_line() -> None:
    said = CliRunner().invoke(main, ["pipeline", "to-files", "--help"])
    assert said.exit_code == 0
    assert "--payload-schema" in said.output
    assert CliRunner().invoke(main, ["pipeline", "to-topic", "nowhere"]).exit_code == 2
    text = "[STREAM_FAILED] x\n  borzoi.X: IGGY_DATA_LOSS: partition 0 is gone\nmore"
    assert error_line(ValueError(text)) == "IGGY_DATA_LOSS: partition 0 is gone"
    text = "[STREAM_FAILED] x\n  File y\nborzoi.protocol.errors.Unauthorized: no permission\nmore"
    assert error_line(ValueError(text)) == "Unauthorized: no permission"
    assert error_line(ValueError("first\nsecond")) == "first"
    assert error_line(ValueError("")) == "ValueError"
