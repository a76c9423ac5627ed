"""One S3 server for all tests of stores."""

from collections.abc import Iterator

import pytest

from tests.cluster.liars import Honest, proxy
from tests.s3_server import KEY_ID, KEY_SECRET, S3Server, s3_server


@pytest.fixture(scope="module")
def bucket() -> Iterator[S3Server]:
    with s3_server() as server, proxy(Honest, server.url) as address:
        yield S3Server(address)


@pytest.fixture
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY_ID)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", KEY_SECRET)
    monkeypatch.setenv("AWS_REGION", "us-east-1")
