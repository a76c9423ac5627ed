"""What a start says when the broker is ready: where everything is, and what to try next.

Lines on standard output, labels dimmed on a terminal, or one JSON object where the log is JSON. The
log has the same facts. Always: the two commands work as they stand, in the directory of the start.
They hold a password only where it is the well-known one of a broker on loopback.
"""

import json
import os
from collections.abc import Mapping
from typing import Final, NamedTuple

from borzoi import __version__
from borzoi.shards.identity.root_account import DEFAULT_PASSWORD, DEFAULT_USERNAME
from borzoi.shards.settings.addresses import format_address, parse_address
from borzoi.terminal import say, say_beside, say_json, say_title

NAMES: Final = {
    "tcp": "TCP",
    "websocket": "WebSocket",
    "http": "HTTP",
    "quic": "QUIC",
    "liftbridge": "Liftbridge",
    "metrics": "Metrics",
}
SCHEMES: Final = {"websocket": ("ws", "wss"), "http": ("http", "https"), "metrics": ("http",) * 2}
EVERYWHERE: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}
COMMAND_VARIABLE: Final = "BORZOI_COMMAND"
"""How the program was called, where that is not `borzoi`: set by the launcher of a checkout."""


class Greeting(NamedTuple):
    """The facts of one start. `username` is the root's, None where its name is not known."""

    doors: Mapping[str, str]
    encrypted: frozenset[str]
    metrics_endpoint: str
    has_console: bool
    shards: int
    cpus: str
    durability: str
    data: str
    ready_after_s: float
    username: str | None
    has_known_password: bool

    def addresses(self) -> dict[str, str]:
        """Every door that is open, by its name, as clients write its address."""
        found = {
            NAMES[name]: self._url(name, address)
            for name, address in self.doors.items()
            if name in NAMES
        }
        if self.has_console and "http" in self.doors:
            host, port = parse_address(self.doors["http"])
            place = format_address(EVERYWHERE.get(host, host), port)
            found["Console"] = f"{self._url('http', place)}/ui"
        return found

    def try_next(self) -> tuple[str, ...]:
        """Two commands for another terminal; without a door for them, none."""
        address = self.doors.get("tcp")
        if address is None:
            return ()
        program = os.environ.get(COMMAND_VARIABLE) or "borzoi"
        host, port = parse_address(address)
        place = format_address(EVERYWHERE.get(host, host), port)
        scheme = "iggy+tls" if "tcp" in self.encrypted else "iggy"
        if self.has_known_password:
            login = f"--server {scheme}://{DEFAULT_USERNAME}:{DEFAULT_PASSWORD}@{place}"
        else:
            tls = " --tcp-tls-enabled" if scheme == "iggy+tls" else ""
            login = f"--server {place}{tls} --username {self.username or DEFAULT_USERNAME}"
        return (f"{program} {login} demo --count 1000", f"{program} {login} tail demo/orders")

    def _url(self, name: str, address: str) -> str:
        if name not in SCHEMES:
            return f"{address} with TLS" if name in self.encrypted else address
        scheme = SCHEMES[name][name in self.encrypted]
        path = self.metrics_endpoint if name == "metrics" else ""
        return f"{scheme}://{address}{path}"


def greet(greeting: Greeting, *, as_json: bool) -> None:
    """Says it, in lines or as one line of JSON."""
    if as_json:
        say_json(json.dumps({"ready": _as_plain(greeting)}))
        return
    say_title(f"borzoi {__version__} is ready after {greeting.ready_after_s:.2f} s")
    for name, address in greeting.addresses().items():
        say_beside(name, address)
    say_beside("Shards", f"{greeting.shards}, on CPUs {greeting.cpus}")
    say_beside("Durability", greeting.durability)
    say_beside("Data", greeting.data)
    if commands := greeting.try_next():
        say("Try this next, in another terminal:")
        for command in commands:
            say(f"  {command}")


def _as_plain(greeting: Greeting) -> dict[str, object]:
    return {
        "version": __version__,
        "addresses": greeting.addresses(),
        "shards": greeting.shards,
        "durability": greeting.durability,
        "data": greeting.data,
        "ready_after_s": round(greeting.ready_after_s, 3),
        "try_next": list(greeting.try_next()),
    }
