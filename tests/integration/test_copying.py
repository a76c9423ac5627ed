"""A broker made to copy does what a broker does, only slower."""

from pathlib import Path

import pytest

from borzoi.protocol.commands.streams import CreateStream
from tests.broker import BrokerProcess
from tests.integration.wire import Wire, topic_of


@pytest.mark.slow
def test_it_serves_the_same_bytes(tmp_path: Path) -> None:
    settings = {"BORZOI_COPY_BYTES": "1", "IGGY_SYSTEM_SHARDING_CPU_ALLOCATION": "1"}
    broker = BrokerProcess(tmp_path / "data", settings)
    broker.start()
    try:
        wire = Wire(broker)
        wire.ask(CreateStream("copied"))
        wire.ask(topic_of("copied"))
        payloads = [b"%03d" % number * 900 for number in range(900)]
        # The first is looked up, the second is remembered.
        assert wire.send("copied", 0, *payloads[:450]) == 0
        assert wire.send("copied", 0, *payloads[450:]) == 0
        assert wire.payloads("copied") == payloads
        wire.close()
    finally:
        broker.close()
