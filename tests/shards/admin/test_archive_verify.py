"""`borzoi archive verify` beside a broker that goes on archiving."""

import pytest

from borzoi.shards.admin.archive_verify import verify
from borzoi.storage.archive.copying import put_bytes
from borzoi.storage.archive.manifest import (
    FileRecord,
    StateManifest,
    encode,
    state_manifest_key,
    state_prefix,
)
from borzoi.storage.archive.store import Pieces
from tests.storage.archive.stores import MemoryStore

FILE = "state.messages"
FIRST = state_manifest_key(1), f"{state_prefix(1)}/{FILE}"


class ThinningStore(MemoryStore):
    """A store whose broker removes its first state at the moment when an object is read."""

    at: str | None = None

    def read(self, key: str) -> Pieces:
        if key == self.at:
            for removed in FIRST:
                self.delete(removed)
        return super().read(key)


def two_states() -> ThinningStore:
    store = ThinningStore()
    for entry in (1, 2):
        record = FileRecord(FILE, 0, "")
        put_bytes(store, f"{state_prefix(entry)}/{FILE}", b"x")
        state = StateManifest(entry=entry, archived_at=0, files=() if entry == 2 else (record,))
        put_bytes(store, state_manifest_key(entry), encode(state))
    return store


@pytest.mark.parametrize("at", FIRST)
def test_a_state_that_is_removed_meanwhile_is_no_damage(at: str) -> None:
    store = two_states()
    store.at = at
    reports: list[str] = []
    found = verify(store, lambda _life: True, reports.append)
    assert (found.states, found.damaged, reports) == (1, 0, [])


def test_a_state_that_stays_without_its_files_is_damage() -> None:
    store = two_states()
    store.delete(FIRST[1])
    reports: list[str] = []
    found = verify(store, lambda _life: True, reports.append)
    assert (found.states, found.damaged, len(reports)) == (2, 1, 1)
