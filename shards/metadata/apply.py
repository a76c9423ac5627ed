"""The one function that changes metadata: apply(state, entry)."""

from borzoi.protocol.errors import BrokerError
from borzoi.shards.metadata.effects import Effects
from borzoi.shards.metadata.entry_form import read_entry
from borzoi.shards.metadata.state import State
from borzoi.storage.wal import WalEntry


class LogContradiction(Exception):
    """An entry does not fit the entries before it. The copy is unusable; the process must end."""


def apply(state: State, entry: WalEntry) -> Effects:
    """Change the state as the entry says. LogContradiction leaves the state half changed."""
    stored, request = read_entry(entry)
    effects = Effects(entry.index)
    try:
        stored.apply(state, entry.timestamp, effects)
    except (BrokerError, KeyError, AssertionError) as error:
        raise LogContradiction(
            f"entry {entry.index} of the metadata log does not fit the entries before it:"
            f" {type(stored).__name__}, {error!r}"
        ) from error
    if request is not None:
        state.remember_request(entry.user_id, request, entry.index, stored.new_id)
    for user_id in effects.users_removed:
        state.forget_requests(user_id)
    return effects
