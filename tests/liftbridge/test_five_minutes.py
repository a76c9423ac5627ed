"""The first section of docs/LIFTBRIDGE.md, word by word: a broker, a client, the command line."""

import os
import subprocess
import sys

import pytest

from tests.conftest import NewBroker
from tests.docs.blocks import blocks_of
from tests.tidy.repository import ROOT

pytestmark = pytest.mark.slow

PAGE = ROOT / "docs/LIFTBRIDGE.md"


def output_of(command: list[str], **more: str) -> str:
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=120, check=True, env=os.environ | more
    )
    return done.stdout


def test_a_newcomer_gets_the_message_back(new_broker: NewBroker) -> None:
    serve, client, tail = (block.text for block in blocks_of(PAGE)[:3])
    *settings, program, command = serve.split()
    assert (program, command) == ("./borzoi", "serve")
    broker = new_broker(**dict(one.split("=") for one in settings))
    program = client.replace("127.0.0.1:9292", broker.liftbridge_address)
    assert output_of([sys.executable, "-c", program]) == "0 b'order 1'\n"
    export, reading = tail.splitlines()
    name, _, server = export.removeprefix("export ").partition("=")
    server = server.replace("127.0.0.1:8090", broker.address)
    words = reading.removeprefix("./borzoi ").split()
    found = output_of([sys.executable, "-m", "borzoi", *words], **{name: server})
    assert "0:0" in found
    assert "order 1" in found
