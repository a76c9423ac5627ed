"""Answers below /ui: the page of the console, and its files.

The page is the same for everyone and holds no data; it asks the API with the token of its user.
Always: a browser runs no script and takes no style but those of the files here, and shows the page
in no frame.
"""

from collections.abc import Mapping
from functools import cached_property
from typing import Final, NamedTuple

from borzoi.shards.settings.addresses import is_loopback
from borzoi.shards.web_console.assets import INDEX, Asset, load_assets
from borzoi.shards.web_forms.failures import plain

PATH: Final = "/ui"
ASSETS: Final = "assets/"
POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "font-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)
GUARDS: Final = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
FOR_EVER: Final = "public, max-age=31536000, immutable"
ASK_AGAIN: Final = "no-cache"
NOT_BUILT: Final = (
    "the console is not part of this installation: its files (console/dist) are missing"
)


class Page(NamedTuple):
    """An answer: its status, body and headers."""

    status: int
    body: bytes
    headers: Mapping[str, str]


class Console:
    """The console of one door. `enabled` is for loopback, `everywhere` for any address."""

    def __init__(self, *, enabled: bool, everywhere: bool) -> None:
        self._enabled = enabled
        self._everywhere = everywhere
        self._is_open = False

    def opened(self, address: str) -> None:
        """The door listens at this address."""
        self._is_open = self._everywhere or (self._enabled and is_loopback(address))

    def serves(self, path: str) -> bool:
        """Whether a path is the console's."""
        return self._is_open and (path == PATH or path.startswith(PATH + "/"))

    @cached_property
    def _assets(self) -> Mapping[str, Asset]:
        return load_assets()

    def answer(self, method: str, path: str, headers: Mapping[str, str]) -> Page:
        """The file that a path means. 405 for what is no read, 404 for a file that is not there."""
        if method not in ("GET", "HEAD"):
            raise plain(405, f"{method} is not allowed here", Allow="GET")
        name = path.removeprefix(PATH).removeprefix("/")
        asset = self._assets.get(name)
        if asset is None:
            # The page itself is at every path without a dot, as links into it may be written.
            if "." in name:
                raise plain(404, "Not Found")
            name, asset = INDEX, self._assets.get(INDEX)
            if asset is None:
                raise plain(404, NOT_BUILT)
        return _page(name, asset, headers)


def _page(name: str, asset: Asset, asked: Mapping[str, str]) -> Page:
    headers = {
        **GUARDS,
        "Cache-Control": FOR_EVER if name.startswith(ASSETS) else ASK_AGAIN,
        "ETag": asset.tag,
        "Vary": "Accept-Encoding",
    }
    known = asked.get("If-None-Match", "")
    if asset.tag in (one.strip().removeprefix("W/") for one in known.split(",")):
        return Page(304, b"", headers)
    headers["Content-Type"] = asset.content_type
    if asset.packed is None or not _takes_gzip(asked.get("Accept-Encoding", "")):
        return Page(200, asset.body, headers)
    return Page(200, asset.packed, headers | {"Content-Encoding": "gzip"})


def _takes_gzip(accepted: str) -> bool:
    for each in accepted.lower().split(","):
        name, _, weight = each.replace(" ", "").partition(";")
        if name == "gzip":
            return weight not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False
