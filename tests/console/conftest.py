"""One broker with two shards and a console, a browser, and what the build of the console needs."""

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright

from tests.broker import HTTP, BrokerProcess, standing
from tests.console.browsing import FLAGS, Console, tab
from tests.http_client import HttpClient
from tests.shard_wires import TWO_SHARDS

SECRET = {"IGGY_HTTP_JWT_ENCODING_SECRET": "a secret of this test, long enough for HS256"}


@pytest.fixture(scope="package")
def console_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    settings = {**TWO_SHARDS, **HTTP, **SECRET}
    with standing(tmp_path_factory.mktemp("console") / "data", settings) as broker:
        yield broker


@pytest.fixture(scope="session")
def node_modules() -> Path:
    """What `./borzoi test` has installed from console/package-lock.json."""
    place = Path(os.environ.get("VIRTUAL_ENV", sys.prefix)) / "console/node_modules"
    if shutil.which("npm") is None:
        pytest.skip("needs npm: the committed files of the console are not built again")
    if not place.is_dir():
        pytest.skip("needs the packages of console/package-lock.json: ./borzoi test installs them")
    return place


@pytest.fixture(scope="package")
def root(console_broker: BrokerProcess) -> HttpClient:
    return HttpClient(console_broker).login()


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("needs chromium: ./borzoi test installs it where it is root")
    with sync_playwright() as library:
        started = library.chromium.launch(executable_path=chromium, args=list(FLAGS))
        yield started
        started.close()


@pytest.fixture
def console(browser: Browser, console_broker: BrokerProcess) -> Iterator[Console]:
    """A tab that is signed in as root."""
    with tab(browser, console_broker) as opened:
        yield opened
