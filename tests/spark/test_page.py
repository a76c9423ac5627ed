"""What docs/SPARK.md says can be done: its program runs, beside the Spark of these tests."""

import contextlib
import io

import pytest

from borzoi.client import BorzoiClient
from tests.docs.blocks import ELSEWHERE, blocks_of
from tests.docs.checkout import WRITTEN_ADDRESS
from tests.spark.conftest import SparkBroker
from tests.tidy.repository import ROOT

pytestmark = pytest.mark.slow


@pytest.mark.usefixtures("spark")
def test_the_program_of_the_page(broker: SparkBroker) -> None:
    async def make(client: BorzoiClient) -> None:
        await client.create_stream("orders")
        await client.create_topic("orders", "events", 1)
        async with client.producer("orders", "events") as producer:
            for number in range(3):
                await producer.send(f"order {number}")

    broker.call(make)
    (block,) = [one for one in blocks_of(ROOT / "docs/SPARK.md") if one.mark == ELSEWHERE]
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        exec(block.text.replace(WRITTEN_ADDRESS, broker.process.address), {})
    assert said.getvalue() == "3\n"
