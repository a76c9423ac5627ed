"""Commands that only the consensus generation has, as every kind of user.

They are in no row of permission_matrix.txt, which holds what all generations have: each is allowed
where a command of the matrix is.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from borzoi.protocol.codes import Code
from borzoi.protocol.commands import (
    Command,
    DescribeOptions,
    OptionScope,
    Register,
    SyncConsumerGroup,
    UpdateUser,
)
from borzoi.protocol.permissions import UserStatus
from tests.access.matrix import (
    ANONYMOUS,
    COLUMNS,
    GROUP,
    INACTIVE,
    ROOT,
    Target,
    cells_of,
    read_matrix,
)
from tests.access.test_permission_matrix import PASSWORD, World
from tests.broker import BrokerProcess, standing
from tests.consensus_wire import VERSION, ConsensusWire

ROWS: Final = read_matrix()
LATER: Final[dict[Code, Callable[[Target], Command]]] = {
    Code.GET_CLUSTER_METADATA: lambda _: DescribeOptions(OptionScope.TOPIC),
    Code.JOIN_CONSUMER_GROUP: lambda at: SyncConsumerGroup(at.stream, at.topic, GROUP),
}


@pytest.fixture(scope="module")
def peopled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    data: Path = tmp_path_factory.mktemp("later") / "data"
    with standing(data) as broker:
        World(broker).wire.ask(UpdateUser(INACTIVE, status=UserStatus.INACTIVE))
        yield broker


@pytest.mark.parametrize("column", COLUMNS)
def test_later_commands(peopled: BrokerProcess, column: str) -> None:
    with ConsensusWire(peopled, login=False) as wire:
        if column not in (ANONYMOUS, INACTIVE):
            name, password = ("iggy", "iggy") if column == ROOT else (column, PASSWORD)
            wire.register(Register(VERSION, "test", "1", name, password))
        for code, make in LATER.items():
            for cell in cells_of(ROWS[code], column):
                status = wire.status(make(cell.target))
                assert cell.fits(status), f"{code.name}, {cell.target.name}: {status}"
