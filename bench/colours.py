"""Colours and names in charts: the same for the same thing in all of them. Pure."""

from collections.abc import Iterable
from typing import Any, Final

INK: Final = "#22303c"
GROUP_COLOURS: Final = {
    "producers": "#c8553d",
    "consumers": "#2a6f97",
    "producing_consumers": "#6a4c93",
    "producers_and_consumers": "#7a8793",
}
SHARD_COLOURS: Final = ("#2a6f97", "#2a9d8f", "#61a5c2", "#52796f", "#013a63", "#8ab17d")
GENERATOR_COLOURS: Final = ("#f4a259", "#e76f51", "#bc6c25", "#e9c46a")


def shown_groups(report: dict[str, Any]) -> list[dict[str, Any]]:
    """Producers and consumers by themselves, not their mixture."""
    groups: Iterable[dict[str, Any]] = report["group_metrics"]
    return [group for group in groups if group["summary"]["kind"] != "producers_and_consumers"]


def process_colours(resources: dict[str, Any]) -> dict[str, str]:
    """The colour of each process, shards apart from generators."""
    shards = [name for name in resources if name.startswith("shard")]
    others = [name for name in resources if not name.startswith("shard")]
    colours = {name: SHARD_COLOURS[at % len(SHARD_COLOURS)] for at, name in enumerate(shards)}
    return colours | {
        name: GENERATOR_COLOURS[at % len(GENERATOR_COLOURS)] for at, name in enumerate(others)
    }


def words(name: str) -> str:
    """The name of a group as text."""
    return name.replace("_", " ")
