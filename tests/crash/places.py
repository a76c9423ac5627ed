"""Where the files of the first topic of the first stream lie, while its broker runs."""

import os

from borzoi.router.placement import pack_namespace
from borzoi.shards.lifecycle.deleting import TRASH_PREFIX
from borzoi.storage.archive.manifest import Life
from borzoi.storage.birth import read_birth
from borzoi.storage.files import Files
from borzoi.storage.layout import DataLayout
from tests.broker import BrokerProcess


def directory_of(broker: BrokerProcess, partition: int) -> str:
    return DataLayout(broker.data).partition(0, 0, partition)


def life_of(broker: BrokerProcess, partition: int) -> Life:
    """Of a partition that has a message."""
    birth = read_birth(directory_of(broker, partition), Files())
    assert birth is not None
    return Life(0, 0, partition, birth)


def in_trash(broker: BrokerProcess, partition: int, path: str) -> str:
    """Where a file of a segment goes that is deleted, or replaced by a compressed one."""
    life = life_of(broker, partition)
    name = f"{TRASH_PREFIX}{pack_namespace(0, 0, partition)}-{life.birth}-{os.path.basename(path)}"
    return os.path.join(DataLayout(broker.data).trash, name)
