"""Every program of examples/ runs against a broker, ends well, and says what it should."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.broker import BrokerProcess, standing
from tests.shard_wires import TWO_SHARDS
from tests.tidy.repository import ROOT

FOLDER: Final = ROOT / "examples"
TIMEOUT_S: Final = 120
SAYS: Final = {
    "hello.py": r"0 hello\n1 bytes as well\n",
    "hello_async.py": r"hello\n",
    "keys.py": r"(?:(?:ada|bob|cy) in partition \d: ordered, paid, sent\n){3}",
    "batches.py": r"100000 messages, [\d,]+ per second\n",
    "headers.py": r"id 7\ntype = order\nversion = 3\ntest = True\n",
    "group.py": r"(?:(?:first|second) reads partition \d\n)+job 0, job 1, job 2, job 3\n",
    "commits.py": r"not committed: a b\nso once more: a b\nand then: c d\n",
    "replay.py": r"all: a b c d e\nfrom offset 3: d e\nfrom the time of the third: c\n",
    "follow.py": r"event 0\nevent 1\nevent 2\n",
    "http.sh": r"hello\n",
}

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with standing(tmp_path_factory.mktemp("examples") / "data", TWO_SHARDS) as broker:
        yield broker


def test_there_are_ten_and_each_is_explained() -> None:
    names = {path.name for path in FOLDER.iterdir() if path.suffix in (".py", ".sh")}
    assert names == SAYS.keys()
    assert len(names) >= 10
    page = (FOLDER / "README.md").read_text()
    assert set(re.findall(r"^\| \[(\S+)\]", page, re.MULTILINE)) == names


@pytest.mark.parametrize("name", SAYS)
def test_an_example_runs(broker: BrokerProcess, name: str, tmp_path: Path) -> None:
    path = FOLDER / name
    command = [sys.executable, str(path)] if path.suffix == ".py" else ["bash", str(path)]
    servers = {
        "BORZOI_SERVER": f"iggy://iggy:iggy@{broker.address}",
        "BORZOI_HTTP": f"http://{broker.http_address}",
    }
    ended = subprocess.run(
        command,
        env=os.environ | servers,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )
    assert ended.returncode == 0, ended.stderr
    assert re.fullmatch(SAYS[name], ended.stdout), ended.stdout
