"""Where the command line keeps what is the user's: one directory, files that only the user reads.

`$XDG_CONFIG_HOME/borzoi`, or `~/.config/borzoi`. Always: a file has the mode 0600 from its first
byte on, and is replaced in one step.
"""

import json
import os
from pathlib import Path
from typing import Any, Final

import click

OWNER_ONLY: Final = 0o600


def directory() -> Path:
    """Where the files lie; it may not exist yet."""
    base = os.environ.get("XDG_CONFIG_HOME")
    return (Path(base) if base else Path.home() / ".config") / "borzoi"


def read_json(name: str) -> dict[str, Any]:
    """The object in a file; an empty one if there is no file."""
    path = directory() / name
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise click.ClickException(f"{path} cannot be read: {error}") from error
    if not isinstance(found, dict):
        raise click.ClickException(f"{path} holds no object; move it away")
    return found


def write_json(name: str, value: dict[str, Any]) -> Path:
    """Replaces a file."""
    path = directory() / name
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    temporary = path.with_name(f"{name}.{os.getpid()}.tmp")
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, OWNER_ONLY)
    with open(fd, "w", encoding="utf-8") as file:
        json.dump(value, file, indent=2)
        file.write("\n")
    temporary.replace(path)
    return path
