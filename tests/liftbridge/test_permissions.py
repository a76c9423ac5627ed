"""Every method needs the permission of the mapped topic: each user with each method."""

import asyncio
from contextlib import AsyncExitStack
from typing import Any, Final

import pytest
from grpclib.const import Status
from grpclib.exceptions import GRPCError

from borzoi.liftbridge.schema import StartPosition, StopPosition
from borzoi.protocol.permissions import GlobalPermissions, Permissions
from tests.broker import BrokerProcess
from tests.liftbridge.client import LiftbridgeClient, publish, received
from tests.liftbridge.logins import new_user, of_topic, writer_of

pytestmark = pytest.mark.slow

READS: Final = {"owner", "reader", "manager"}
WRITES: Final = {"owner", "writer", "manager"}
WHAT: Final = {"stream": "mine"}
GROUP: Final = {"groupId": "permitted", "consumerId": "m"}
ROWS: Final[list[tuple[str, dict[str, Any], set[str]]]] = [
    ("CreateStream", {"name": "new", "subject": "new"}, {"owner"}),
    ("PauseStream", {"name": "mine"}, {"owner", "manager"}),
    ("Publish", WHAT | {"value": b"v"}, WRITES),
    ("SetStreamReadonly", {"name": "mine"}, {"owner", "manager"}),
    ("PublishToSubject", {"subject": "mine.subject"}, WRITES),
    ("FetchPartitionMetadata", WHAT, READS),
    ("SetCursor", WHAT | {"cursorId": "c"}, READS),
    ("FetchCursor", WHAT | {"cursorId": "c"}, READS),
    ("JoinConsumerGroup", GROUP | {"streams": ["mine"]}, READS),
    ("FetchConsumerGroupAssignments", GROUP, READS),
    (
        "ReportConsumerGroupCoordinator",
        GROUP | {"coordinator": "x"},
        READS,
    ),
    ("LeaveConsumerGroup", GROUP, READS),
    ("DeleteStream", {"name": "mine"}, {"owner", "manager"}),
]
"""Methods, and which users they are not forbidden; the others get PERMISSION_DENIED."""


async def is_forbidden(client: LiftbridgeClient, method: str, fields: dict[str, Any]) -> bool:
    if method == "PublishToSubject":
        # A subject none of whose streams the user may publish to has no ack, as one without any.
        return await has_no_ack(client, method, fields)
    try:
        await client.call(method, **fields)
    except GRPCError as error:
        return error.status is Status.PERMISSION_DENIED
    return False


async def has_no_ack(client: LiftbridgeClient, method: str, fields: dict[str, Any]) -> bool:
    try:
        await client.call(method, deadline_s=1, **fields)
    except TimeoutError:
        return True
    except GRPCError as error:
        return error.status is Status.DEADLINE_EXCEEDED
    return False


def test_every_method_with_every_user(bridged: BrokerProcess) -> None:
    async def make() -> None:
        async with LiftbridgeClient(bridged) as root:
            await root.call("CreateStream", name="mine", subject="mine.subject")

    asyncio.run(make())
    users: dict[str, dict[str, str]] = {
        "nothing": new_user(bridged, "nothing", None),
        "writer": writer_of(bridged, "mine"),
        "reader": new_user(bridged, "reader", of_topic(bridged, "mine", read_topic=True)),
        "manager": new_user(bridged, "manager", of_topic(bridged, "mine", manage_topic=True)),
        "owner": new_user(bridged, "owner", Permissions(GlobalPermissions(manage_streams=True))),
    }

    async def work() -> None:
        async with AsyncExitStack() as stack:
            root = await stack.enter_async_context(LiftbridgeClient(bridged))
            clients = {
                name: await stack.enter_async_context(LiftbridgeClient(bridged, metadata=metadata))
                for name, metadata in users.items()
            }
            for method, fields, may in ROWS:
                for name, client in clients.items():
                    forbidden = await is_forbidden(client, method, fields)
                    assert forbidden is (name not in may), (method, name)
                    if method in ("PauseStream", "SetStreamReadonly"):
                        await root.call("SetStreamReadonly", name="mine", readonly=False)
                    if method == "DeleteStream" and not forbidden:
                        await root.call("CreateStream", name="mine", subject="mine.subject")
                        return

    asyncio.run(streams_of_calls(bridged, users))
    asyncio.run(work())


async def streams_of_calls(bridged: BrokerProcess, users: dict[str, dict[str, str]]) -> None:
    """Subscribe, PublishAsync and FetchMetadata, which do not end with the status of a refusal."""
    latest: dict[str, Any] = {
        "startPosition": StartPosition.EARLIEST, "stopPosition": StopPosition.LATEST,
    }  # fmt: skip
    for name, metadata in users.items():
        async with LiftbridgeClient(bridged, metadata=metadata) as client:
            _, status = await client.until_end("mine", **latest)
            reads = name in READS
            assert (status is Status.PERMISSION_DENIED) is not reads, name
            async with client.publish_async() as opened:
                await opened.send_message(publish(stream="mine", value=b"v"))
                await opened.end()
                answer = await received(opened)
            writes = name in WRITES
            assert (answer.asyncError.code == 7) is not writes, name
            found = await client.call("FetchMetadata")
            seen = "mine" in [one.name for one in found.streamMetadata]
            assert seen is reads, name
