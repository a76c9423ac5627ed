"""A connection moves to the shard that owns what it sends to, or all that it polls, unnoticed."""

import asyncio
from collections.abc import Callable

import psutil
import pytest

from borzoi.client import FIRST, NEXT, BorzoiClient
from borzoi.protocol.identifiers import Consumer, ConsumerKind
from borzoi.protocol.responses import PolledMessages
from borzoi.router.placement import pack_namespace, shard_of
from tests.broker import BrokerProcess

NewBroker = Callable[..., BrokerProcess]

CLIENTS_MIN = 8
CLIENTS_MAX = 64
ROUNDS = 20
SHARDS = 2


def shards_of_clients(broker: BrokerProcess) -> dict[int, int]:
    """Which shard holds the server's end of each client's connection, by the client's port."""
    found: dict[int, int] = {}
    for shard, pid in broker.workers().items():
        for connection in psutil.Process(pid).net_connections(kind="tcp"):
            if connection.status == psutil.CONN_ESTABLISHED:
                found[connection.raddr.port] = shard
    return found


async def open_on_both_shards(broker: BrokerProcess) -> list[BorzoiClient]:
    """Clients of which the kernel has given some to either shard."""
    clients: list[BorzoiClient] = []
    while len(clients) < CLIENTS_MAX:
        clients.append(await BorzoiClient.open(broker.address, username="iggy", password="iggy"))
        shards = set(shards_of_clients(broker).values())
        if len(clients) >= CLIENTS_MIN and len(shards) == SHARDS:
            return clients
    raise AssertionError(f"all of {CLIENTS_MAX} connections went to one shard")


async def send_from_all(clients: list[BorzoiClient], partition_id: int) -> None:
    """Every client sends often; all of it arrives, in order, under the same identity."""
    await clients[0].create_stream("moving")
    await clients[0].create_topic("moving", "topic", 4)
    for number in range(ROUNDS):
        for sender, client in enumerate(clients):
            message = f"{sender} {number}"
            await client.send_messages("moving", "topic", [message], partition_id=partition_id)
    for client in clients:
        me = await client.get_me()
        assert me.client.user_id == 0
    count = len(clients) * ROUNDS
    polled = await clients[-1].poll_messages(
        "moving", "topic", partition_id, strategy=FIRST, count=count + 1
    )
    assert [message.offset for message in polled.messages] == list(range(count))
    for sender in range(len(clients)):
        own = [m.payload for m in polled.messages if m.payload.startswith(b"%d " % sender)]
        assert own == [b"%d %d" % (sender, number) for number in range(ROUNDS)]


@pytest.mark.slow
def test_connections_move_to_the_owner_and_keep_their_identity(broker: BrokerProcess) -> None:
    async def run() -> None:
        clients = await open_on_both_shards(broker)
        await send_from_all(clients, partition_id=1)
        owner = shard_of(pack_namespace(0, 0, 1), SHARDS)
        assert set(shards_of_clients(broker).values()) == {owner}
        assert len(await clients[0].get_clients()) == len(clients), "each is known once"
        for client in clients:
            await client.close()

    asyncio.run(run())


@pytest.mark.slow
def test_connections_stay_when_migration_is_off(new_broker: NewBroker) -> None:
    broker = new_broker(IGGY_TCP_SOCKET_MIGRATION="false")

    async def run() -> None:
        clients = await open_on_both_shards(broker)
        before = shards_of_clients(broker)
        await send_from_all(clients, partition_id=1)
        assert shards_of_clients(broker) == before
        for client in clients:
            await client.close()

    asyncio.run(run())


@pytest.mark.slow
def test_members_move_to_the_owner_of_all_they_hold(broker: BrokerProcess) -> None:
    """What each polls comes once and in order, before the move and after it."""

    async def run() -> None:
        members = await open_on_both_shards(broker)
        places = ("moving", "topic", "readers")
        await members[0].create_stream("moving")
        await members[0].create_topic("moving", "topic", len(members))
        await members[0].create_consumer_group(*places)
        for member in members:
            await member.join_consumer_group(*places)
        # Nothing is sent by the id of a partition, which would move a client as well.
        for number in range(len(members) * ROUNDS):
            await members[0].send_messages("moving", "topic", [str(number)])
        seen = []
        for _ in range(ROUNDS + 1):
            for member in members:
                polled = await poll_as_member(member)
                seen += [(member, polled.partition_id, one.offset) for one in polled.messages]
        ids = {member: partition for member, partition, _ in seen}
        assert sorted(ids.values()) == list(range(len(members)))
        for member, partition in ids.items():
            offsets = [offset for one, held, offset in seen if (one, held) == (member, partition)]
            assert offsets == list(range(ROUNDS))
        where = shards_of_clients(broker)
        for member, partition in ids.items():
            port = int((await member.get_me()).client.address.rpartition(":")[2])
            assert where[port] == shard_of(pack_namespace(0, 0, partition), SHARDS)
        group = await members[0].get_consumer_group(*places)
        assert group is not None
        assert sorted(one.partitions for one in group.members) == [(at,) for at in range(len(ids))]
        for member in members:
            await member.close()

    asyncio.run(run())


async def poll_as_member(member: BorzoiClient) -> PolledMessages:
    group = Consumer(ConsumerKind.GROUP, "readers")
    return await member.poll_messages(
        "moving", "topic", None, strategy=NEXT, count=1, consumer=group, auto_commit=True
    )


@pytest.mark.slow
def test_a_member_of_partitions_on_both_shards_stays(broker: BrokerProcess) -> None:
    async def run() -> None:
        clients = await open_on_both_shards(broker)
        before = shards_of_clients(broker)
        places = ("moving", "topic", "readers")
        await clients[0].create_stream("moving")
        await clients[0].create_topic("moving", "topic", 16)
        await clients[0].create_consumer_group(*places)
        owners = {shard_of(pack_namespace(0, 0, partition), SHARDS) for partition in range(16)}
        assert owners == {0, 1}
        for client in clients:
            await client.join_consumer_group(*places)
            for _ in range(16):
                await poll_as_member(client)
            await client.leave_consumer_group(*places)
        assert shards_of_clients(broker) == before
        for client in clients:
            await client.close()

    asyncio.run(run())
