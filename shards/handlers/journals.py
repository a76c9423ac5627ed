"""Mode buffered acknowledges from memory; figures must show that too."""

from borzoi.shards.handlers.services import Services
from borzoi.shards.partitions.durability import Durability


async def show_journals(services: Services) -> None:
    """Let the board show everything that was acknowledged, on all shards."""
    if services.durability is Durability.BUFFERED:
        await services.owners.flush_journals()
