"""Commands about the broker itself and who is connected to it."""

import time
from collections.abc import Coroutine
from typing import Any

from borzoi.protocol.codes import Code
from borzoi.protocol.commands.system import (
    DescribeOptions,
    GetClient,
    GetClients,
    GetClusterMetadata,
    GetMe,
    GetSnapshot,
    GetStats,
    OptionScope,
    Ping,
)
from borzoi.protocol.errors import ClientNotFound, InvalidClientId
from borzoi.protocol.responses.clients import ClientDetails, ClientInfo
from borzoi.protocol.responses.cluster import ClusterMetadata
from borzoi.protocol.responses.options import OptionDescription
from borzoi.protocol.responses.stats import Stats
from borzoi.shards.handlers.caller import Caller
from borzoi.shards.handlers.journals import show_journals
from borzoi.shards.handlers.membership import require_registered
from borzoi.shards.handlers.services import Services
from borzoi.shards.metadata.access import require


def ping(services: Services, caller: Caller, _command: Ping) -> None:
    """The client lives and so do we. After an eviction it changes nothing, and is no error.

    Except for clients with sessions, which then connect and log in again.
    """
    if caller.generation.has_sessions:
        require_registered(services, caller)
    caller.last_heartbeat = time.monotonic()
    caller.has_pinged = True


def get_stats(services: Services, caller: Caller, _command: GetStats) -> Coroutine[Any, Any, Stats]:
    """Figures of the whole broker."""
    require(services.metadata.refresh(), caller.user, Code.GET_STATS)
    return _collect_stats(services)


async def _collect_stats(services: Services) -> Stats:
    await show_journals(services)
    return await services.statistics.collect()


async def get_snapshot(services: Services, caller: Caller, command: GetSnapshot) -> bytes:
    """An archive that describes the broker and its machine."""
    require(services.metadata.refresh(), caller.user, Code.GET_SNAPSHOT)
    return await services.snapshots.take(command)


def get_cluster_metadata(
    services: Services, caller: Caller, _command: GetClusterMetadata
) -> ClusterMetadata:
    """The nodes that the configuration names; with none of them, this one."""
    if caller.generation.has_sessions:
        return services.cluster.as_seen_at(caller.local_host)
    return services.cluster.metadata()


def describe_options(
    services: Services, _caller: Caller, command: DescribeOptions
) -> tuple[OptionDescription, ...]:
    """The options of topics. Streams and users have none."""
    if command.scope is not OptionScope.TOPIC:
        return ()
    return services.topic_defaults.descriptions()


def get_me(services: Services, caller: Caller, _command: GetMe) -> ClientDetails:
    """The caller's own session."""
    if not services.clients.is_registered(caller):
        raise ClientNotFound(f"client {caller.client_id} is not registered any more")
    return services.clients.describe(caller)


async def get_client(
    services: Services, caller: Caller, command: GetClient
) -> ClientDetails | None:
    """One session, on whichever shard it is."""
    require(services.metadata.refresh(), caller.user, Code.GET_CLIENT)
    if command.client_id == 0:
        raise InvalidClientId("client ids are not 0")
    for details in await services.clients.everybody():
        if details.client.client_id == command.client_id:
            return details
    return None


async def get_clients(services: Services, caller: Caller, _command: GetClients) -> list[ClientInfo]:
    """All sessions of all shards."""
    require(services.metadata.refresh(), caller.user, Code.GET_CLIENTS)
    return [details.client for details in await services.clients.everybody()]
