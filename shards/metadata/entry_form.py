"""Entries of the metadata log as bytes: a MessagePack map of the fields, with a `kind`.

A change that a client has numbered has a field `request` as well: the client's id and the number.

Fields a reader does not know are skipped; kinds it does not know are refused, because skipping an
entry would make copies differ.

The `flags` of the log entry: bits 0..7 hold FORMAT_VERSION, bit 8 says that the command is
encrypted (sealing.py). The other bits are 0. What is handed in here is in clear.
"""

from typing import Any, Final, Union

import msgspec

from borzoi.messagepack import BYTES, NotPacked, converted, pack, unpacked
from borzoi.shards.metadata import attachment_entries, entries
from borzoi.shards.metadata.entries import Stored
from borzoi.shards.metadata.requests import RequestKey
from borzoi.storage.wal import WalEntry

FORMAT_VERSION: Final = 1
VERSION_MASK: Final = 0xFF
REQUEST_FIELD: Final = "request"

# The classes that others are made of are no kinds.
KINDS: Final[dict[object, type[Stored]]] = {
    kind.__struct_config__.tag: kind
    for kind in (*vars(entries).values(), *vars(attachment_entries).values())
    if isinstance(kind, type) and issubclass(kind, Stored) and not kind.__subclasses__()
}
ANY_KIND: Final[Any] = Union[tuple(KINDS.values())]  # noqa: UP007 - of as many as there are


class UnknownEntry(Exception):
    """The log holds an entry that this version cannot apply."""


def new_entry(
    index: int, timestamp: int, user_id: int, stored: Stored, request: RequestKey | None = None
) -> WalEntry:
    """The log entry that holds this."""
    command: object = stored
    if request is not None:
        command = {**msgspec.to_builtins(stored, builtin_types=BYTES), REQUEST_FIELD: request}
    return WalEntry(index, 0, timestamp, user_id, FORMAT_VERSION, pack(command))


def stored_command(entry: WalEntry) -> Stored:
    """What a log entry holds, or UnknownEntry with the reason."""
    return read_entry(entry)[0]


def read_entry(entry: WalEntry) -> tuple[Stored, RequestKey | None]:
    """What a log entry holds and the request it comes from, or UnknownEntry with the reason."""
    version = entry.flags & VERSION_MASK
    if version != FORMAT_VERSION or entry.flags & ~VERSION_MASK:
        raise UnknownEntry(
            f"entry {entry.index} of the metadata log has flags {entry.flags:#x} (format version"
            f" {version}); this borzoi reads version {FORMAT_VERSION}."
            " A newer one wrote it: start that."
        )
    try:
        plain = unpacked(entry.command)
        return _stored(plain), _request(plain)
    except NotPacked as error:
        raise UnknownEntry(
            f"entry {entry.index} of the metadata log (format version {version}) holds a command"
            f" that this borzoi cannot apply: {error}. If a newer one wrote it, start that."
        ) from error


def _request(plain: Any) -> RequestKey | None:
    found = plain.get(REQUEST_FIELD)
    return None if found is None else converted(found, RequestKey)


def _stored(plain: Any) -> Stored:
    kind = plain.get("kind") if isinstance(plain, dict) else None
    # Looked up here, because msgspec takes ten times as long to choose. Of what is not in the
    # table the union says in which way it is wrong.
    found: Any = KINDS.get(kind if isinstance(kind, str) else None, ANY_KIND)
    stored: Stored = converted(plain, found)
    return stored
