"""Every endpoint of the HTTP door, one row each. The OpenAPI document is made of these rows.

Paths, statuses and objects are those of Iggy's server; rows that it does not have are ours, below
their own heading.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from borzoi.protocol.codes import Code, LaterCode
from borzoi.protocol.commands.sessions import GetPersonalAccessTokens
from borzoi.protocol.commands.streams import DeleteStream, GetStream, GetStreams, PurgeStream
from borzoi.protocol.commands.system import GetClients, GetClusterMetadata, GetStats
from borzoi.protocol.commands.topics import DeleteTopic, GetTopic, GetTopics, PurgeTopic
from borzoi.protocol.commands.users import DeleteUser, GetUser, GetUsers
from borzoi.shards.web_connections.exchange import Exchange, Outcome, Raw
from borzoi.shards.web_console.consumers import ConsumerNameAnswer, HeardNames
from borzoi.shards.web_console.facts import ServerAnswer, ServerFacts
from borzoi.shards.web_console.log_tail import LogAnswer, LogQuery, LogTail
from borzoi.shards.web_console.reports import ReportAnswer, Reports
from borzoi.shards.web_forms import answers, bodies, objects
from borzoi.shards.web_forms.failures import JSON
from borzoi.shards.web_groups.consuming import Consuming
from borzoi.shards.web_messages import messages, octets
from borzoi.shards.web_messages.streaming import EVENTS, Streaming
from borzoi.shards.web_routes import commands, system
from borzoi.shards.web_routes.commands import command, of_stream, of_topic, of_user
from borzoi.shards.web_routes.endpoint import Endpoint
from borzoi.shards.web_routes.openapi import document
from borzoi.shards.web_tokens.logins import HttpLogins

STREAM = "/streams/{stream_id}"
TOPIC = f"{STREAM}/topics/{{topic_id}}"
MESSAGES = f"{TOPIC}/messages"
OFFSETS = f"{TOPIC}/consumer-offsets"
GROUPS = f"{TOPIC}/consumer-groups"
MEMBERS = f"{GROUPS}/{{group_id}}/members"
MEMBER = f"{MEMBERS}/{{member_id}}"
USER = "/users/{user_id}"
TOKENS = "/personal-access-tokens"


class Offers(NamedTuple):
    """What the rows need that is not of a request."""

    logins: HttpLogins
    metrics_text: Callable[[], Awaitable[bytes]]
    metrics_path: str | None
    closing: asyncio.Event
    streaming: Streaming
    consuming: Consuming
    facts: ServerFacts
    log_tail: LogTail
    reports: Reports
    consumer_names: HeardNames


def all_routes(offers: Offers) -> tuple[Endpoint, ...]:
    """The whole table, and the document that describes it."""
    rows = (
        *_of_system(offers),
        *_of_users(offers.logins),
        *_of_tokens(offers.logins),
        *_of_streams(),
        *_of_topics(),
        *_of_messages(offers.streaming),
        *_of_consumers(),
        *_ours(offers),
    )
    described: list[bytes] = []

    def describe(_exchange: Exchange) -> Outcome:
        if not described:
            described.append(document(whole))
        return Raw(described[0], JSON)

    own = Endpoint(
        "GET", "/openapi.json", describe, "This document", answer=dict[str, Any], is_public=True
    )
    whole = (*rows, own)
    return whole


def _text(path: str, call: Callable[[Exchange], Outcome], summary: str) -> Endpoint:
    return Endpoint("GET", path, call, summary, is_public=True, is_text=True)


def _always(make: Callable[[], Any]) -> Callable[[Exchange], Any]:
    """A command without fields."""
    return lambda _exchange: make()


def _of_system(offers: Offers) -> list[Endpoint]:
    rows = [
        _text("/", system.say("Iggy API"), "The name of this API"),
        _text("/ping", system.say("pong"), "Whether the broker answers"),
        Endpoint(
            "GET", "/stats",
            command(Code.GET_STATS, _always(GetStats), answers.stats),
            "Figures of the whole broker", answer=objects.StatsAnswer,
        ),
        Endpoint(
            "GET", "/cluster/metadata",
            command(Code.GET_CLUSTER_METADATA, _always(GetClusterMetadata), answers.cluster),
            "The nodes", answer=objects.ClusterAnswer,
        ),
        Endpoint(
            "GET", "/clients",
            command(Code.GET_CLIENTS, _always(GetClients), answers.clients),
            "All connected clients", answer=list[objects.ClientAnswer],
        ),
        Endpoint(
            "GET", "/clients/{client_id}",
            command(Code.GET_CLIENT, commands.get_client, answers.client_details),
            "A connected client", answer=objects.ClientDetailsAnswer,
        ),
        Endpoint(
            "GET", "/options/{scope}",
            command(LaterCode.DESCRIBE_OPTIONS, commands.describe_options, answers.options),
            "The options of topics, streams or users", answer=list[objects.OptionAnswer],
        ),
        Endpoint(
            "POST", "/snapshot", system.snapshot, "An archive that describes the broker",
            body=bodies.SnapshotBody, other_types=(system.ZIP,),
        ),
    ]  # fmt: skip
    if offers.metrics_path is not None:
        rows.append(
            Endpoint(
                "GET",
                offers.metrics_path,
                system.metrics(offers.metrics_text),
                "Metrics as OpenMetrics text",
                is_public=offers.metrics_path == "/metrics",
                other_types=("application/openmetrics-text",),
            )
        )
    return rows


def _of_users(logins: HttpLogins) -> list[Endpoint]:
    def login(one: Exchange) -> Outcome:
        return logins.login(one.caller, one.body)

    def refresh(one: Exchange) -> Outcome:
        return logins.refresh(one.caller, one.body)

    def logout(one: Exchange) -> Outcome:
        return logins.logout(one.caller)

    return [
        Endpoint(
            "POST", "/users/login", login, "Log in with name and password",
            body=bodies.LoginBody, answer=objects.IdentityAnswer, is_public=True,
        ),
        Endpoint("DELETE", "/users/logout", logout, "Withdraw the token", status=204),
        Endpoint(
            "POST", "/users/refresh-token", refresh, "A later token for one that is still valid",
            body=bodies.TokenBody, answer=objects.IdentityAnswer, is_public=True,
        ),
        Endpoint(
            "GET", "/users",
            command(Code.GET_USERS, _always(GetUsers), answers.users),
            "All users", answer=list[objects.UserAnswer],
        ),
        Endpoint(
            "POST", "/users",
            command(Code.CREATE_USER, commands.create_user, answers.user_details),
            "Create a user", body=bodies.CreateUserBody, answer=objects.UserDetailsAnswer,
        ),
        Endpoint(
            "GET", USER,
            command(Code.GET_USER, of_user(GetUser), answers.user_details),
            "A user and its permissions", answer=objects.UserDetailsAnswer,
        ),
        Endpoint(
            "PUT", USER, command(Code.UPDATE_USER, commands.update_user),
            "Rename a user, or switch it on or off", body=bodies.UpdateUserBody, status=204,
        ),
        Endpoint(
            "DELETE", USER, command(Code.DELETE_USER, of_user(DeleteUser)),
            "Remove a user", status=204,
        ),
        Endpoint(
            "PUT", f"{USER}/permissions",
            command(Code.UPDATE_PERMISSIONS, commands.update_permissions),
            "Replace the permissions of a user", body=bodies.PermissionsBody, status=204,
        ),
        Endpoint(
            "PUT", f"{USER}/password", command(Code.CHANGE_PASSWORD, commands.change_password),
            "Change a password", body=bodies.PasswordBody, status=204,
        ),
    ]  # fmt: skip


def _of_tokens(logins: HttpLogins) -> list[Endpoint]:
    def login(one: Exchange) -> Outcome:
        return logins.login_with_token(one.caller, one.body)

    return [
        Endpoint(
            "GET", TOKENS,
            command(
                Code.GET_PERSONAL_ACCESS_TOKENS, _always(GetPersonalAccessTokens), answers.tokens
            ),
            "The personal access tokens of this user", answer=list[objects.TokenAnswer],
        ),
        Endpoint(
            "POST", TOKENS,
            command(Code.CREATE_PERSONAL_ACCESS_TOKEN, commands.create_token, answers.raw_token),
            "Create a personal access token",
            body=bodies.CreateTokenBody, answer=objects.RawTokenAnswer,
        ),
        Endpoint(
            "DELETE", f"{TOKENS}/{{name}}",
            command(Code.DELETE_PERSONAL_ACCESS_TOKEN, commands.delete_token),
            "Withdraw a personal access token", status=204,
        ),
        Endpoint(
            "POST", f"{TOKENS}/login", login, "Log in with a personal access token",
            body=bodies.TokenBody, answer=objects.IdentityAnswer, is_public=True,
        ),
    ]  # fmt: skip


def _of_streams() -> list[Endpoint]:
    return [
        Endpoint(
            "GET", "/streams", command(Code.GET_STREAMS, _always(GetStreams), answers.streams),
            "All streams", answer=list[objects.StreamAnswer],
        ),
        Endpoint(
            "POST", "/streams",
            command(Code.CREATE_STREAM, commands.create_stream, answers.new_stream),
            "Create a stream", body=bodies.StreamBody, answer=objects.StreamDetailsAnswer,
        ),
        Endpoint(
            "GET", STREAM, command(Code.GET_STREAM, of_stream(GetStream), answers.stream_details),
            "A stream and its topics", answer=objects.StreamDetailsAnswer,
        ),
        Endpoint(
            "PUT", STREAM, command(Code.UPDATE_STREAM, commands.update_stream),
            "Rename a stream", body=bodies.StreamBody, status=204,
        ),
        Endpoint(
            "DELETE", STREAM, command(Code.DELETE_STREAM, of_stream(DeleteStream)),
            "Remove a stream and everything in it", status=204,
        ),
        Endpoint(
            "DELETE", f"{STREAM}/purge", command(Code.PURGE_STREAM, of_stream(PurgeStream)),
            "Empty all topics of a stream", status=204,
        ),
    ]  # fmt: skip


def _of_topics() -> list[Endpoint]:
    return [
        Endpoint(
            "GET", f"{STREAM}/topics",
            command(
                Code.GET_TOPICS, of_stream(GetTopics), answers.topics, commands.stream_is_there
            ),
            "The topics of a stream", answer=list[objects.TopicAnswer],
        ),
        Endpoint(
            "POST", f"{STREAM}/topics", commands.create_topic_or_not_found,
            "Create a topic", body=bodies.CreateTopicBody, answer=objects.TopicDetailsAnswer,
        ),
        Endpoint(
            "GET", TOPIC, command(Code.GET_TOPIC, of_topic(GetTopic), answers.topic_details),
            "A topic and its partitions", answer=objects.TopicDetailsAnswer,
        ),
        Endpoint(
            "PUT", TOPIC, command(Code.UPDATE_TOPIC, commands.update_topic),
            "Change a topic", body=bodies.UpdateTopicBody, status=204,
        ),
        Endpoint(
            "DELETE", TOPIC, command(Code.DELETE_TOPIC, of_topic(DeleteTopic)),
            "Remove a topic and everything in it", status=204,
        ),
        Endpoint(
            "DELETE", f"{TOPIC}/purge", command(Code.PURGE_TOPIC, of_topic(PurgeTopic)),
            "Empty a topic", status=204,
        ),
        Endpoint(
            "POST", f"{TOPIC}/partitions",
            command(Code.CREATE_PARTITIONS, commands.create_partitions),
            "Add partitions", body=bodies.PartitionsBody, status=201,
        ),
        Endpoint(
            "DELETE", f"{TOPIC}/partitions",
            command(Code.DELETE_PARTITIONS, commands.delete_partitions),
            "Remove partitions", query=bodies.PartitionsQuery, status=204,
        ),
        Endpoint(
            "DELETE", f"{TOPIC}/partitions/{{partition_id}}",
            command(Code.DELETE_SEGMENTS, commands.delete_segments),
            "Delete the oldest segments of a partition", query=bodies.SegmentsQuery, status=204,
        ),
    ]  # fmt: skip


def _of_messages(reads: Streaming) -> list[Endpoint]:
    async def poll(one: Exchange) -> Outcome:
        return await messages.answer(one, await reads.poll(one, one.query))

    return [
        Endpoint(
            "POST", MESSAGES, messages.send, "Send messages",
            body=bodies.SendBody, query=bodies.SendQuery, status=201,
            other_bodies=(octets.OCTETS, octets.LINES),
        ),
        Endpoint(
            "GET", MESSAGES, poll, "Poll messages",
            query=bodies.PollQuery, answer=objects.PolledAnswer,
            other_types=(octets.OCTETS, octets.LINES),
        ),
        Endpoint(
            "GET", f"{MESSAGES}/flush/{{partition_id}}/{{fsync}}",
            command(Code.FLUSH_UNSAVED_BUFFER, commands.flush),
            "Write what a partition holds in memory",
        ),
    ]  # fmt: skip


def _of_consumers() -> list[Endpoint]:
    return [
        Endpoint(
            "GET", OFFSETS,
            command(
                Code.GET_CONSUMER_OFFSET, commands.get_offset, answers.offset,
                commands.topic_is_there,
            ),
            "A committed offset", query=bodies.OffsetQuery, answer=objects.OffsetAnswer,
        ),
        Endpoint(
            "PUT", OFFSETS, command(Code.STORE_CONSUMER_OFFSET, commands.store_offset),
            "Commit an offset", body=bodies.StoreOffsetBody, status=204,
        ),
        Endpoint(
            "DELETE", f"{OFFSETS}/{{consumer_id}}",
            command(Code.DELETE_CONSUMER_OFFSET, commands.delete_offset),
            "Forget a committed offset", query=bodies.PartitionQuery, status=204,
        ),
        Endpoint(
            "GET", GROUPS,
            command(
                Code.GET_CONSUMER_GROUPS, commands.get_groups, answers.groups,
                commands.topic_is_there,
            ),
            "The consumer groups of a topic", answer=list[objects.GroupAnswer],
        ),
        Endpoint(
            "POST", GROUPS,
            command(Code.CREATE_CONSUMER_GROUP, commands.create_group, answers.new_group),
            "Create a consumer group",
            body=bodies.NameBody, answer=objects.GroupDetailsAnswer, status=201,
        ),
        Endpoint(
            "GET", f"{GROUPS}/{{group_id}}",
            command(
                Code.GET_CONSUMER_GROUP, commands.get_group, answers.group_details,
                commands.group_is_there,
            ),
            "A consumer group and its members", answer=objects.GroupDetailsAnswer,
        ),
        Endpoint(
            "DELETE", f"{GROUPS}/{{group_id}}",
            command(Code.DELETE_CONSUMER_GROUP, commands.delete_group),
            "Remove a consumer group", status=204,
        ),
    ]  # fmt: skip


def _ours(offers: Offers) -> list[Endpoint]:
    """What Iggy's server does not have."""
    return [
        _text("/healthz", system.say("ok"), "Whether the shard lives"),
        _text("/readyz", system.readiness(offers.closing), "Whether the shard takes requests"),
        Endpoint(
            "GET", f"{MESSAGES}/stream", offers.streaming.stream,
            "Messages as server-sent events, from now on or from an offset",
            query=bodies.StreamQuery, other_types=(EVENTS,),
        ),
        Endpoint(
            "GET", "/server", offers.facts.show, "Settings, durability and warnings of the broker",
            answer=ServerAnswer,
        ),
        Endpoint(
            "GET", "/logs", offers.log_tail.show, "The newest lines of the log, or those since",
            query=LogQuery, answer=LogAnswer,
        ),
        Endpoint(
            "GET", "/reports", offers.reports.show, "Reports of the load generator",
            answer=list[ReportAnswer],
        ),
        Endpoint(
            "GET", "/consumer-names", offers.consumer_names.show, "What consumers call themselves",
            answer=list[ConsumerNameAnswer],
        ),
        Endpoint(
            "GET", f"{TOPIC}/liftbridge", commands.attachment,
            "A topic as a stream of Liftbridge", answer=objects.AttachmentAnswer,
        ),
        *_of_members(offers.consuming),
    ]  # fmt: skip


def _of_members(members: Consuming) -> list[Endpoint]:
    """A member of a group without a connection, held by a lease."""
    return [
        Endpoint(
            "POST", MEMBERS, members.join, "Join a consumer group for the time of a lease",
            body=bodies.LeaseBody, answer=objects.LeaseAnswer, status=201,
        ),
        Endpoint("PUT", MEMBER, members.renew, "Renew the lease of a member", status=204),
        Endpoint("DELETE", MEMBER, members.leave, "Leave a consumer group", status=204),
        Endpoint(
            "GET", f"{MEMBER}/messages", members.poll, "Poll as a member of a group",
            query=bodies.GroupPollQuery, answer=objects.PolledAnswer,
            other_types=(octets.OCTETS, octets.LINES),
        ),
        Endpoint(
            "PUT", f"{MEMBER}/offsets", members.store, "Commit an offset of a group",
            body=bodies.GroupOffsetBody, status=204,
        ),
        Endpoint(
            "DELETE", f"{MEMBER}/offsets", members.delete, "Forget an offset of a group",
            query=bodies.PartitionQuery, status=204,
        ),
    ]  # fmt: skip
