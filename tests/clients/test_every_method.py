"""All public methods of the newest package, by introspection of the package, over three doors."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.broker import QUIC, standing
from tests.clients.wheels import WHEELS, need
from tests.shard_wires import TWO_SHARDS

pytestmark = pytest.mark.slow

SCRIPT: Final = Path(__file__).with_name("every_method.py")
METHODS_OF_CLIENT: Final = 39


@pytest.mark.parametrize("scheme", ["iggy", "iggy+ws", "iggy+quic"])
def test_every_method_of_the_newest_package(tmp_path: Path, scheme: str) -> None:
    newest = WHEELS[-1]
    need(newest)
    with standing(tmp_path / "data", {**TWO_SHARDS, **QUIC}) as broker:
        addresses = {"iggy+ws": broker.websocket_address, "iggy+quic": broker.quic_address}
        ended = subprocess.run(
            [
                *(sys.executable, "-I", "-S", str(SCRIPT)),
                *(str(newest.directory), newest.module),
                *(scheme, addresses.get(scheme, broker.address)),
            ],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    assert ended.returncode == 0, ended.stderr
    seen = json.loads(ended.stdout.splitlines()[-1])
    client = [one for one in seen["public"] if one.startswith("IggyClient.")]
    assert len(client) == METHODS_OF_CLIENT
    assert set(seen["public"]) - set(seen["called"]) == set()
