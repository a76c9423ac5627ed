"""info.json: which program wrote this data directory, and in which format.

The format number goes up when an older broker could no longer read the files rightly. A number
we do not know stops the boot: guessing could destroy what a newer broker wrote. All numbers up to
ours can be read, for ever.

    1   the first
    2   the metadata log may begin behind a snapshot
    3   segments, commands and snapshots may be encrypted
    4   sealed segments may be compressed
"""

import json
from dataclasses import dataclass
from typing import Final

from borzoi.storage.files import Files
from borzoi.storage.layout import DataLayout

FORMAT: Final = 4
INFO_SIZE_MAX: Final = 64 * 1024


class UnknownDataFormat(Exception):
    """The broker must not touch the data directory; the text says why."""


@dataclass(frozen=True, slots=True)
class Info:
    """The content of info.json."""

    version: str  # of the broker that last started here
    format: int = FORMAT
    created_by: str = ""  # the version that made the directory, empty if that is unknown


def write_info(layout: DataLayout, files: Files, version: str, before: Info | None) -> None:
    """Note the version that uses the directory from now on. Durable when it returns."""
    created_by = version if before is None else before.created_by
    fields = {"version": version, "format": FORMAT, "created_by": created_by}
    files.write_atomically(layout.info_file, (json.dumps(fields, indent=2) + "\n").encode())


def read_info(layout: DataLayout, files: Files) -> Info | None:
    """What info.json says, None in a fresh directory."""
    data = files.read_all(layout.info_file, INFO_SIZE_MAX)
    if data is None:
        return None
    try:
        fields = json.loads(data)
        created_by = str(fields.get("created_by", ""))
        info = Info(str(fields["version"]), fields["format"], created_by)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UnknownDataFormat(f"{layout.info_file} cannot be understood: {error}") from error
    if type(info.format) is not int or info.format < 1:
        raise UnknownDataFormat(f"{layout.info_file} has no valid format number: {info.format!r}")
    if info.format > FORMAT:
        raise UnknownDataFormat(
            f"{layout.root} was written by version {info.version} in format {info.format}; "
            f"this broker knows formats up to {FORMAT}. Start a newer broker on it."
        )
    return info
