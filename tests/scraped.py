"""Metrics as a scraper sees them: fetched over HTTP, read by a strict parser.

The parser is that of Prometheus' own Python client.
"""

import http.client
from collections.abc import Iterator
from typing import NamedTuple

from prometheus_client import Metric
from prometheus_client.openmetrics import parser

from borzoi.protocol.openmetrics import CONTENT_TYPE

TIMEOUT_S = 60.0


def parsed(text: str) -> list[Metric]:
    """The families; ValueError for whatever is no OpenMetrics."""
    return list(parser.text_string_to_metric_families(text))  # type: ignore[no-untyped-call]  # theirs


class Answer(NamedTuple):
    """An HTTP answer."""

    status: int
    headers: http.client.HTTPMessage
    body: bytes


def fetch(address: str, path: str = "/metrics", method: str = "GET") -> Answer:
    """One request on a connection of its own."""
    connection = http.client.HTTPConnection(address, timeout=TIMEOUT_S)
    try:
        connection.request(method, path)
        response = connection.getresponse()
        return Answer(response.status, response.headers, response.read())
    finally:
        connection.close()


class Scraped:
    """One answer, by names and labels."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.families = {family.name: family for family in parsed(text)}

    @classmethod
    def of(cls, address: str) -> "Scraped":
        answer = fetch(address)
        assert answer.status == 200, answer
        assert answer.headers["Content-Type"] == CONTENT_TYPE
        return cls(answer.body.decode())

    def rows(self, family: str) -> Iterator[tuple[dict[str, str], float]]:
        """Labels and figures of a family."""
        for sample in self.families[family].samples:
            yield sample.labels, sample.value

    def value(self, family: str, **labels: object) -> float:
        """The one row with exactly these labels."""
        wanted = {name: str(value) for name, value in labels.items()}
        (value,) = [value for found, value in self.rows(family) if found == wanted]
        return value

    def total(self, family: str, **labels: object) -> float:
        """The sum of the rows that have these labels."""
        wanted = {name: str(value) for name, value in labels.items()}.items()
        return sum(value for found, value in self.rows(family) if wanted <= found.items())
