"""`borzoi cluster check-store` against stores that keep their word and stores that do not."""

import asyncio
import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from borzoi.cluster.check_store import Report, Verdict, check
from borzoi.cluster.operations import Listed, PutResult
from borzoi.cluster.stores import DirectorySlots
from borzoi.main import main
from tests.cluster.liars import (
    AgreesAndForgets,
    ChecksBeforeItPuts,
    Honest,
    IgnoresTheCondition,
    proxy,
)
from tests.docs.blocks import blocks_of, commands_of
from tests.s3_server import BUCKET, KEY_SECRET, S3Server
from tests.tidy.repository import ROOT

SIZES = (4096, 65536, 1048576)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["cluster", "check-store", "--samples", "2", *arguments])


def checked(store: DirectorySlots) -> Report:
    return asyncio.run(check(store, rounds=4, writers=4, samples=2))


def said(report: Report) -> dict[str, str]:
    return {one.name: one.says for one in report.checks if one.verdict is Verdict.BAD}


def test_a_directory_fits_and_is_left_empty(tmp_path: Path) -> None:
    result = run(str(tmp_path / "store"), "--rounds", "5")
    assert result.exit_code == 0, result.output
    assert "5 rounds of 8 racing puts have one winner each, and its bytes are read" in result.output
    assert "fits" in result.output
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_what_the_page_says_can_be_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """docs/CLUSTER.md, word by word but for the launcher."""
    monkeypatch.chdir(tmp_path)
    (command,) = [
        command
        for block in blocks_of(ROOT / "docs/CLUSTER.md")
        if "check-store" in block.text
        for command in commands_of(block)
    ]
    launcher, *arguments = shlex.split(command)
    assert launcher == "./borzoi"
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output


def test_the_report_is_json_on_demand(tmp_path: Path) -> None:
    result = run(f"file://{tmp_path}", "--rounds", "1", "--json")
    report: dict[str, Any] = json.loads(result.output)
    assert report["fits"] is True
    assert [one["name"] for one in report["checks"]] == [
        "put-if-absent",
        "races",
        "listing",
        "deletion",
        "clock",
    ]
    rows = {(row["request"], row["size_bytes"]) for row in report["latencies"]}
    assert rows == {(what, size) for what in ("put-if-absent", "get") for size in SIZES}
    assert all(0 < row["p50_ms"] <= row["p99_ms"] for row in report["latencies"])


@pytest.mark.slow
@pytest.mark.usefixtures("credentials")
@pytest.mark.parametrize(
    ("kind", "code", "sentence"),
    [
        (Honest, 0, "fits: a lane is safe on it as far as a check can tell"),
        (IgnoresTheCondition, 1, "a second put-if-absent of one key is answered OK"),
        (ChecksBeforeItPuts, 1, "racing puts of one key are answered OK"),
        (AgreesAndForgets, 1, "a second put-if-absent of one key is answered OK"),
    ],
)
def test_a_bucket_that_lies_is_refused(
    bucket: S3Server, kind: type[Honest], code: int, sentence: str
) -> None:
    with proxy(kind, bucket.url) as endpoint:
        place = f"s3://{BUCKET}/{kind.__name__}"
        result = run(place, "--endpoint", endpoint, "--rounds", "5")
    assert result.exit_code == code, result.output
    assert sentence in result.output
    assert KEY_SECRET not in result.output


@pytest.mark.usefixtures("credentials")
def test_a_store_that_cannot_be_judged_is_neither(bucket: S3Server, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    gone = run(f"s3://{BUCKET}/x", "--endpoint", "http://127.0.0.1:1", "--json")
    said_why = json.loads(gone.stdout)
    assert said_why["fits"] is None
    assert "error sending request" in said_why["error"].lower()
    missing = run("s3://no-such-bucket/x", "--endpoint", bucket.url)
    no_place = run(str(tmp_path / "file"))
    for result in (gone, missing, no_place):
        assert result.exit_code == 3, result.output
        assert "nothing is known about this store" in result.output
    assert run("ftp://host/x").exit_code == 2


class LastWins(DirectorySlots):
    async def put_if_absent(self, key: str, body: bytes) -> PutResult:
        await self.put(key, body)
        return PutResult.OK


class RefusesAndPuts(DirectorySlots):
    async def put_if_absent(self, key: str, body: bytes) -> PutResult:
        result = await super().put_if_absent(key, body)
        await self.put(key, body)
        return result


class Fails(DirectorySlots):
    async def put_if_absent(self, key: str, body: bytes) -> PutResult:
        result = await super().put_if_absent(key, body)
        return PutResult.UNKNOWN if result is PutResult.EXISTS else result


class ListsLate(DirectorySlots):
    async def list(self, prefix: str) -> list[Listed]:
        return (await super().list(prefix))[:-1]


class ListsTheDead(DirectorySlots):
    def __init__(self, root: str) -> None:
        super().__init__(root)
        self.ever: dict[str, Listed] = {}

    async def list(self, prefix: str) -> list[Listed]:
        now = {one.key: one for one in await super().list(prefix)}
        gone = [] if now else list(self.ever.values())
        self.ever.update(now)
        return [*now.values(), *gone]


class ReadsTheDead(DirectorySlots):
    def __init__(self, root: str) -> None:
        super().__init__(root)
        self.ever: dict[str, bytes] = {}

    async def get(self, key: str) -> bytes | None:
        body = await super().get(key)
        if body is None:
            return self.ever.get(key)
        self.ever[key] = body
        return body


class KeepsNames(DirectorySlots):
    def __init__(self, root: str) -> None:
        super().__init__(root)
        self.ever: set[str] = set()

    async def put_if_absent(self, key: str, body: bytes) -> PutResult:
        if key in self.ever:
            return PutResult.EXISTS
        self.ever.add(key)
        return await super().put_if_absent(key, body)


class Behind(DirectorySlots):
    late_s = 61.0 + 5.0

    async def list(self, prefix: str) -> list[Listed]:
        found = await super().list(prefix)
        return [one._replace(modified_s=one.modified_s - self.late_s) for one in found]


@pytest.mark.parametrize(
    ("kind", "name", "sentence"),
    [
        (LastWins, "put-if-absent", "a second put-if-absent of one key is answered OK"),
        (RefusesAndPuts, "put-if-absent", "a refused put-if-absent changes what is there"),
        (Fails, "put-if-absent", "a second put-if-absent of one key is not refused, it fails"),
        (ListsLate, "listing", "a listing behind put 0 shows 0 objects"),
        (ListsTheDead, "deletion", "a listing shows what was deleted before it"),
        (ReadsTheDead, "deletion", "an object is read behind its deletion"),
        (KeepsNames, "deletion", "a key stays taken behind its deletion"),
        (Behind, "clock", "the store's clock and this one differ by 6"),
    ],
)
def test_each_lie_has_its_sentence(
    tmp_path: Path, kind: type[DirectorySlots], name: str, sentence: str
) -> None:
    report = checked(kind(str(tmp_path)))
    assert not report.fits
    assert said(report)[name].startswith(sentence)


def test_a_clock_that_is_a_little_off_is_a_warning(tmp_path: Path) -> None:
    class LittleBehind(Behind):
        late_s = 12.0

    report = checked(LittleBehind(str(tmp_path)))
    assert report.fits
    assert report.checks[-1].verdict is Verdict.WARNING
