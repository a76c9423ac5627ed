"""A route, and the table that finds one by method and path. Pure.

A path of a route is literal parts and {names}. Of two that fit, the one with fewer names counts.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from borzoi.shards.web_forms.failures import plain


@dataclass(frozen=True)
class Endpoint:
    """One row of the table: everything that is known of an endpoint."""

    method: str
    path: str
    call: Callable[[Any], Any]
    """Takes an Exchange; returns an Outcome, or a coroutine that gives one."""

    summary: str
    body: Any = None
    """The type of the JSON body; None if there is none, or if `call` reads it itself."""

    query: Any = None
    answer: Any = None
    """The type of the JSON answer; None if there is none."""

    status: int = 200
    is_public: bool = False
    is_text: bool = False
    """Whether the answer is plain text."""

    other_types: tuple[str, ...] = ()
    """Content types of answers that are no JSON."""

    other_bodies: tuple[str, ...] = ()
    """Content types of bodies that are no JSON."""

    @property
    def parts(self) -> tuple[str, ...]:
        """The parts of its path."""
        return tuple(self.path[1:].split("/"))

    @property
    def names(self) -> tuple[str, ...]:
        """The names in its path."""
        return tuple(part[1:-1] for part in self.parts if part.startswith("{"))


class Found(NamedTuple):
    """A route, and what the names in its path stand for."""

    route: Endpoint
    path: dict[str, str]


class Router:
    """All routes, by the number of their parts."""

    def __init__(self, routes: Iterable[Endpoint]) -> None:
        self._by_size: dict[int, list[tuple[tuple[str, ...], Endpoint]]] = {}
        for route in sorted(routes, key=lambda one: len(one.names)):
            self._by_size.setdefault(len(route.parts), []).append((route.parts, route))
        self._public = {route.path for route in routes if route.is_public}

    def is_public(self, path: str) -> bool:
        """Whether a path needs no token, whatever the method."""
        return path in self._public

    def find(self, method: str, parts: tuple[str, ...]) -> Found:
        """The route of a request. 404 if no path fits, 405 if no method does."""
        wanted = "GET" if method == "HEAD" else method
        others = set()
        for pattern, route in self._by_size.get(len(parts), ()):
            if not _fits(pattern, parts):
                continue
            if route.method == wanted:
                pairs = zip(pattern, parts, strict=True)
                return Found(route, {name[1:-1]: part for name, part in pairs if name[:1] == "{"})
            others.add(route.method)
        if others:
            raise plain(405, f"{method} is not allowed here", Allow=", ".join(sorted(others)))
        raise plain(404, "there is nothing at this path")


def _fits(pattern: tuple[str, ...], parts: tuple[str, ...]) -> bool:
    return all(
        one == part or (one[:1] == "{" and part) for one, part in zip(pattern, parts, strict=True)
    )
