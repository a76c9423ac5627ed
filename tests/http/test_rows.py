"""Every endpoint against a running broker: status, body, order of fields (rows.py)."""

import re
from collections.abc import Iterator

import pytest

from tests.broker import HTTP, BrokerProcess, standing
from tests.http.rows import ROWS, Row
from tests.http_client import HttpAnswer, HttpClient

PLACEHOLDERS = {"<n>": r"\d+", "<t>": r"[\w.+/=-]+", "<r>": r"[^\"]+"}


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[HttpAnswer]]:
    """The rows build upon each other, so all are asked at once, of a broker of their own."""
    with standing(tmp_path_factory.mktemp("rows") / "data", HTTP) as broker:
        yield [ask(client, row) for client in [logged_in(broker)] for row in ROWS]


def logged_in(broker: BrokerProcess) -> HttpClient:
    return HttpClient(broker).login()


def ask(client: HttpClient, row: Row) -> HttpAnswer:
    headers = {"Content-Type": "application/json"} if isinstance(row.body, bytes) else None
    return client.ask(row.method, row.path, row.body, headers)


def label(number: int) -> str:
    row = ROWS[number]
    return f"{number}-{row.method} {row.path[:60]}-{row.status}"


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(ROWS)), ids=label)
def test_the_answer_is_exact(answers: list[HttpAnswer], number: int) -> None:
    row, answer = ROWS[number], answers[number]
    assert answer.status == row.status, answer
    if row.answer == "*":
        assert answer.body
        return
    wanted = re.escape(row.answer or "")
    for placeholder, pattern in PLACEHOLDERS.items():
        wanted = wanted.replace(placeholder, pattern)
    assert re.fullmatch(wanted, answer.body.decode()), answer.body.decode()


@pytest.mark.slow
def test_content_types(answers: list[HttpAnswer]) -> None:
    for row, answer in zip(ROWS, answers, strict=True):
        kind = answer.headers.get("Content-Type", "")
        if answer.body.startswith((b"{", b"[")):
            assert kind == "application/json", row
        elif row.path == "/snapshot" and row.status == 200:
            assert kind == "application/zip"
            disposition = answer.headers["Content-Disposition"]
            assert re.fullmatch(
                r'attachment; filename="iggy_snapshot_\d{8}_\d{6}\.zip"', disposition
            )
        elif answer.body:
            assert kind.startswith(("text/plain", "application/openmetrics-text")), row
