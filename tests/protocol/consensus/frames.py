"""The checked-in frames of the consensus generation."""

from typing import NamedTuple

from tests.protocol.values import GOLDEN


class Exchange(NamedTuple):
    """A request and its answer, headers included; the request is empty for what is only said."""

    name: str
    about: str
    request: bytes
    response: bytes


def exchanges() -> list[Exchange]:
    """All of tests/golden/frames-consensus.txt."""
    found = []
    text = (GOLDEN / "frames-consensus.txt").read_text()
    for block in text.split("\n\n")[1:]:
        title, *lines = block.strip().splitlines()
        name, _, about = title.partition(" ")
        parts = dict(line.split() for line in lines)
        request, response = (
            bytes.fromhex(parts.get(f"{side}-H", "") + parts.get(f"{side}-B", ""))
            for side in ("REQ", "RSP")
        )
        found.append(Exchange(name, about, request, response))
    return found
