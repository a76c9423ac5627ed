"""info.json: which program wrote this data directory, and in which format.

The format number goes up when an older broker could no longer read the files rightly. A number
we do not know stops the boot: guessing could destroy what a newer broker wrote.
"""

import json
from dataclasses import dataclass
from typing import Final

from borzoi.storage.files import Files
from borzoi.storage.layout import DataLayout

FORMAT: Final = 1
INFO_SIZE_MAX: Final = 64 * 1024


class UnknownDataFormat(Exception):
    """This broker must not touch the data directory; the text says why."""


@dataclass(frozen=True, slots=True)
class Info:
    version: str  # of the broker that last started here
    format: int = FORMAT


def write_info(layout: DataLayout, files: Files, version: str) -> None:
    """Note the version that uses the directory from now on. Durable when it returns."""
    text = json.dumps({"version": version, "format": FORMAT}, indent=2) + "\n"
    files.write_atomically(layout.info_file, text.encode())


def read_info(layout: DataLayout, files: Files) -> Info | None:
    """What info.json says, None in a fresh directory."""
    data = files.read_all(layout.info_file, INFO_SIZE_MAX)
    if data is None:
        return None
    try:
        fields = json.loads(data)
        info = Info(str(fields["version"]), fields["format"])
    except (ValueError, KeyError, TypeError) as error:
        raise UnknownDataFormat(f"{layout.info_file} cannot be understood: {error}") from error
    if type(info.format) is not int or info.format < 1:
        raise UnknownDataFormat(f"{layout.info_file} has no valid format number: {info.format!r}")
    if info.format > FORMAT:
        raise UnknownDataFormat(
            f"{layout.root} was written by version {info.version} in format {info.format}; "
            f"this broker knows formats up to {FORMAT}. Start a newer broker on it."
        )
    return info
