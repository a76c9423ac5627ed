"""`borzoi ping`, `me`, `stats`, `snapshot`, `client`, `cluster`."""

import time
from collections.abc import Sequence
from pathlib import Path

import click

from borzoi.client.cli.running import HELP, Noun, lists, uses_client, uses_client_without_login
from borzoi.client.cli.showing import Said, Written, as_plain, toml_lines
from borzoi.client.cli.streams import found
from borzoi.client.client import BorzoiClient
from borzoi.protocol.commands import SnapshotCompression, SnapshotType
from borzoi.protocol.responses import ClientDetails, ClientInfo, ClusterMetadata, Stats
from borzoi.terminal import IN_JSON

NS_PER_MS = 1_000_000


@click.command(context_settings=HELP)
@click.option("-c", "--count", type=click.IntRange(min=1), default=1, show_default=True)
@uses_client_without_login
async def ping(client: BorzoiClient, count: int) -> dict[str, float]:
    """Ask the server whether it is there; how long it took, in milliseconds."""
    took_ms = []
    for _ in range(count):
        started_ns = time.perf_counter_ns()
        await client.ping()
        took_ms.append((time.perf_counter_ns() - started_ns) / NS_PER_MS)
    average_ms = sum(took_ms) / count
    return {"count": count, "min_ms": min(took_ms), "avg_ms": average_ms, "max_ms": max(took_ms)}


@click.command(context_settings=HELP)
@uses_client
async def me(client: BorzoiClient) -> ClientDetails:
    """Show this session as the server sees it."""
    return await client.get_me()


@click.command(context_settings=HELP)
@click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "list", "json", "toml"]),
    default="table",
    show_default=True,
    help="How the numbers look; a table is a list here.",
)
@uses_client
async def stats(client: BorzoiClient, output: str) -> Stats | Written:
    """Show the server's numbers."""
    found = await client.get_stats()
    if output == "toml" and not click.get_current_context().params["as_json"]:
        return Written(tuple(toml_lines(as_plain(found))))
    click.get_current_context().meta[IN_JSON] = output == "json"
    return found


@click.command(context_settings=HELP)
@click.option(
    "-c",
    "--compression",
    type=click.Choice([one.name.lower() for one in SnapshotCompression]),
    default="deflated",
    show_default=True,
)
@click.option(
    "-s",
    "--type",
    "--snapshot-types",
    "types",
    multiple=True,
    type=click.Choice([one.name.lower() for one in SnapshotType]),
    default=("all",),
    show_default=True,
)
@click.option(
    "-o",
    "--output",
    "--out-dir",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=".",
    help="The directory to write the archive to.",
)
@uses_client
async def snapshot(
    client: BorzoiClient, compression: str, types: tuple[str, ...], output: Path
) -> Said:
    """Fetch an archive that describes the server, for finding a fault in it."""
    archive = await client.get_snapshot(
        [SnapshotType[one.upper()] for one in types],
        compression=SnapshotCompression[compression.upper()],
    )
    path = output / f"snapshot_{time.strftime('%Y%m%d_%H%M%S', time.gmtime())}.zip"
    with path.open("xb") as file:
        file.write(archive)
    return Said(f"{path}")


@click.group("client", cls=Noun)
def clients() -> None:
    """The clients that are connected."""


@clients.command("get")
@click.argument("client_id", type=click.IntRange(min=1))
@uses_client
async def get_client(client: BorzoiClient, client_id: int) -> ClientDetails:
    """Show a client and the groups it is a member of."""
    details: ClientDetails = found("client", client_id, await client.get_client(client_id))
    return details


@clients.command("list")
@lists
@uses_client
async def list_clients(client: BorzoiClient) -> Sequence[ClientInfo]:
    """Show all clients."""
    return await client.get_clients()


@click.group(cls=Noun, short={"m": "metadata"})
def cluster() -> None:
    """The nodes there are."""


@cluster.command()
@uses_client
async def metadata(client: BorzoiClient) -> ClusterMetadata:
    """Show the nodes of the cluster."""
    return await client.get_cluster_metadata()
