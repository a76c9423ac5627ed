"""The built files of the console, in memory: bytes, their packed twins, their tags.

They lie beside the package (`src/borzoi/console`, a link to `console/dist`) and are read once, at
the first request. Always: names of assets hold a hash of their content, so an asset never changes.
"""

from collections.abc import Mapping
from hashlib import sha256
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final, NamedTuple

INDEX: Final = "index.html"
PACKED: Final = ".gz"
TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".woff2": "font/woff2",
    ".txt": "text/plain; charset=utf-8",
}


class Asset(NamedTuple):
    """One file; `packed` is it with gzip, where that is smaller."""

    body: bytes
    packed: bytes | None
    content_type: str
    tag: str


def load_assets() -> Mapping[str, Asset]:
    """All files by their path below the console; none if they were not installed."""
    found: dict[str, bytes] = {}
    _gather(files("borzoi") / "console", "", found)
    return {
        name: Asset(body, found.get(name + PACKED), content_type, _tag(body))
        for name, body in found.items()
        if (content_type := TYPES.get(name[name.rfind(".") :])) is not None
    }


def _gather(place: Traversable, prefix: str, found: dict[str, bytes]) -> None:
    if not place.is_dir():
        return
    for one in place.iterdir():
        if one.is_dir():
            _gather(one, f"{prefix}{one.name}/", found)
        else:
            found[prefix + one.name] = one.read_bytes()


def _tag(body: bytes) -> str:
    return f'"{sha256(body).hexdigest()[:32]}"'
