"""Mode buffered acknowledges from memory; figures must show that too."""

from borzoi.shards.durability import Durability
from borzoi.shards.services import Services


async def show_journals(services: Services) -> None:
    """Let the board show everything that was acknowledged, on all shards."""
    if services.durability is Durability.BUFFERED:
        await services.owners.flush_journals()
