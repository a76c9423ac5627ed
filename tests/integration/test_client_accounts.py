"""Users, permissions and tokens through our own client and its command line."""

import asyncio
import json

import pytest
from click.testing import CliRunner

from borzoi.client import BorzoiClient
from borzoi.main import main
from borzoi.protocol.errors import InvalidCredentials, Unauthorized, UserInactive
from borzoi.protocol.permissions import (
    GlobalPermissions,
    Permissions,
    StreamPermissions,
    UserStatus,
)
from tests.broker import BrokerProcess

TEST_TIMEOUT_S = 60


def test_a_user_lives(standing_broker: BrokerProcess, stream: str) -> None:
    address = standing_broker.address

    async def test() -> None:
        async with BorzoiClient.connect(f"iggy://iggy:iggy@{address}") as root:
            details = await root.get_stream(stream)
            assert details is not None
            await root.create_topic(stream, "t", 1)
            rights = Permissions(streams={details.stream.id: StreamPermissions(read_stream=True)})
            anna = await root.create_user("anna", "secret", permissions=rights)
            assert anna.user.username == "anna"
            assert (await root.get_user("anna")) == anna
            assert anna.user in await root.get_users()

            async with BorzoiClient.connect(f"iggy://anna:secret@{address}") as client:
                assert (await client.get_me()).client.user_id == anna.user.id
                assert await client.get_stream(stream) is not None
                with pytest.raises(Unauthorized):
                    await client.create_stream("mine")
                # A key needs no more than the right to send, although the topic is not shown.
                await root.update_permissions(
                    "anna", Permissions(GlobalPermissions(send_messages=True))
                )
                async with client.producer(stream, "t") as producer:
                    await producer.send("hello", key="k")
                await client.change_password("anna", "secret", "better")
                await root.update_user("anna", username="hanna")

            with pytest.raises(InvalidCredentials):
                await BorzoiClient.open(address, username="hanna", password="secret")
            async with BorzoiClient.connect(f"iggy://hanna:better@{address}") as client:
                token = await client.create_personal_access_token("mine")
                assert [one.name for one in await client.get_personal_access_tokens()] == ["mine"]
            async with BorzoiClient.connect(address, token=token.token) as client:
                assert (await client.get_me()).client.user_id == anna.user.id
                await client.delete_personal_access_token("mine")
                assert await client.get_personal_access_tokens() == ()

            await root.update_user("hanna", status=UserStatus.INACTIVE)
            with pytest.raises(UserInactive):
                await BorzoiClient.open(address, username="hanna", password="better")
            await root.delete_user("hanna")
            assert await root.get_user("hanna") is None

    asyncio.run(asyncio.wait_for(test(), TEST_TIMEOUT_S))


def test_users_and_tokens_by_command(standing_broker: BrokerProcess) -> None:
    def said(*words: str, **environ: str) -> str:
        environ.setdefault("BORZOI_SERVER", f"iggy://iggy:iggy@{standing_broker.address}")
        result = CliRunner().invoke(main, words, env=environ)
        assert result.exit_code == 0, result.stderr
        return result.stdout

    created = json.loads(said("user", "create", "bert", "secret", "-g", "r_srv", "--json"))
    assert created["permissions"]["global_permissions"]["read_servers"] is True
    said("user", "password", "bert", "secret", "better")
    server = f"iggy://bert:better@{standing_broker.address}"
    token = json.loads(said("pat", "create", "tool", "1h", "--json", BORZOI_SERVER=server))["token"]
    stats = said("stats", BORZOI_SERVER=standing_broker.address, BORZOI_TOKEN=token)
    assert "messages_count" in stats
    assert "tool" in said("pat", "list", BORZOI_SERVER=server)
    said("pat", "delete", "tool", BORZOI_SERVER=server)
    said("user", "permissions", "bert")
    said("user", "status", "bert", "inactive")
    assert "inactive" in said("user", "get", "bert")
    said("user", "delete", "bert")
    assert "bert" not in said("user", "list")
