"""The command line against a scripted server: what is asked, what is said, how it fails."""

import json
from typing import Any

import pytest
from click.testing import CliRunner, Result

from borzoi.main import CLIENT, main
from borzoi.protocol import commands
from borzoi.protocol.codes import Code
from borzoi.protocol.commands import Command, SnapshotCompression, SnapshotType
from borzoi.protocol.framing import OK, encode_response
from borzoi.protocol.generations import CLASSIC
from borzoi.protocol.identifiers import U64_MAX, Consumer, ConsumerKind
from borzoi.protocol.permissions import (
    GlobalPermissions,
    Permissions,
    StreamPermissions,
    UserStatus,
)
from borzoi.protocol.responses import (
    ConsumerGroupDetails,
    ConsumerGroupInfo,
    ConsumerGroupMember,
    RawToken,
    TokenInfo,
    UserDetails,
    UserInfo,
)
from tests.client.scripted_server import Answer, scripted_in_a_thread

LOGGED_IN = Answer(encode_response(0, bytes(4)))
ANNA = UserDetails(UserInfo(1, 1_000_000, UserStatus.ACTIVE, "anna"), None)
GROUP = ConsumerGroupInfo(3, 2, 1, "g")
MEMBERS = ConsumerGroupDetails(GROUP, (ConsumerGroupMember(0, (0, 1)),))
OF_STREAM = Permissions(
    GlobalPermissions(read_users=True), {4: StreamPermissions(read_stream=True)}
)
WHO = Consumer(ConsumerKind.GROUP, "g")


def run(*words: str, stdin: str | None = None, **environ: str) -> Result:
    return CliRunner().invoke(main, words, env=environ, input=stdin)


DELETED = {"message": "user anna is deleted", "done": "user delete", "user": "anna"}

# Words, then what they ask, what the server answers, and what is said; JSON is compared whole.
CASES: list[tuple[str, Command, bytes, Any]] = [
    (
        "user create anna secret -u inactive -g r_usr -s 4:r_str",
        commands.CreateUser("anna", "secret", UserStatus.INACTIVE, OF_STREAM),
        CLASSIC.replies[Code.GET_USER](ANNA),
        {
            "id": 1,
            "created_at": 1_000_000,
            "status": "active",
            "username": "anna",
            "permissions": None,
        },
    ),
    ("user get 1", commands.GetUser(1), CLASSIC.replies[Code.GET_USER](ANNA), None),
    (
        "user list",
        commands.GetUsers(),
        CLASSIC.replies[Code.GET_USERS]([ANNA.user]),
        [{"id": 1, "created_at": 1_000_000, "status": "active", "username": "anna"}],
    ),
    ("user name anna hanna", commands.UpdateUser("anna", "hanna"), b"", None),
    (
        "user status anna inactive",
        commands.UpdateUser("anna", None, UserStatus.INACTIVE),
        b"",
        {
            "message": "user anna is inactive",
            "done": "user status",
            "user": "anna",
            "status": "inactive",
        },
    ),
    ("user password anna old new", commands.ChangePassword("anna", "old", "new"), b"", None),
    ("user permissions anna", commands.UpdatePermissions("anna", None), b"", None),
    ("user d anna", commands.DeleteUser("anna"), b"", DELETED),
    (
        "pat create ci 1h",
        commands.CreatePersonalAccessToken("ci", 3_600_000_000),
        CLASSIC.replies[Code.CREATE_PERSONAL_ACCESS_TOKEN](RawToken("abc")),
        {"token": "abc"},
    ),
    (
        "pat create ci never",
        commands.CreatePersonalAccessToken("ci", U64_MAX),
        CLASSIC.replies[Code.CREATE_PERSONAL_ACCESS_TOKEN](RawToken("abc")),
        {"token": "abc"},
    ),
    (
        "pat list",
        commands.GetPersonalAccessTokens(),
        CLASSIC.replies[Code.GET_PERSONAL_ACCESS_TOKENS](
            [TokenInfo("ci", None), TokenInfo("old", 5)]
        ),
        [{"name": "ci", "expiry_at": None}, {"name": "old", "expiry_at": 5}],
    ),
    ("pat delete ci", commands.DeletePersonalAccessToken("ci"), b"", None),
    (
        "consumer-group create s 1 g",
        commands.CreateConsumerGroup("s", 1, "g"),
        CLASSIC.replies[Code.CREATE_CONSUMER_GROUP](GROUP),
        {"id": 3, "partitions_count": 2, "members_count": 1, "name": "g"},
    ),
    (
        "g g s 1 g",
        commands.GetConsumerGroup("s", 1, "g"),
        CLASSIC.replies[Code.GET_CONSUMER_GROUP](MEMBERS),
        {
            "id": 3,
            "partitions_count": 2,
            "members_count": 1,
            "name": "g",
            "members": [{"id": 0, "partitions": [0, 1]}],
        },
    ),
    (
        "consumer-group list s 1",
        commands.GetConsumerGroups("s", 1),
        CLASSIC.replies[Code.GET_CONSUMER_GROUPS]([GROUP]),
        None,
    ),
    ("consumer-group delete s 1 3", commands.DeleteConsumerGroup("s", 1, 3), b"", None),
    (
        "o s g s t 1 9 -k consumer-group",
        commands.StoreConsumerOffset(WHO, "s", "t", 1, 9),
        b"",
        {
            "message": "consumer-group g stands at 9 in partition 1",
            "done": "consumer-offset set",
            "consumer": "g",
            "kind": "consumer-group",
            "stream": "s",
            "topic": "t",
            "partition": 1,
            "offset": 9,
        },
    ),
    (
        "consumer-offset delete g s t 1 -k consumer-group",
        commands.DeleteConsumerOffset(WHO, "s", "t", 1),
        b"",
        None,
    ),
]


@pytest.mark.parametrize(
    ("words", "command", "answer", "said"), CASES, ids=[case[0] for case in CASES]
)
@pytest.mark.parametrize("as_json", [True, False], ids=["json", "plain"])
def test_commands(words: str, command: Command, answer: bytes, said: Any, as_json: bool) -> None:
    with scripted_in_a_thread(LOGGED_IN, Answer(encode_response(0, answer))) as server:
        result = run(
            *words.split(),
            *(["--json"] if as_json else []),
            BORZOI_SERVER=f"iggy://iggy:iggy@{server.address}",
        )
        assert (result.exit_code, result.stderr) == (0, "")
        assert server.commands[1] == command
    if as_json:
        shown = json.loads(result.stdout)
        assert said is None or shown == said
    else:
        assert result.stdout.strip()


def test_passwords_can_be_asked_for() -> None:
    with scripted_in_a_thread(LOGGED_IN, Answer(OK)) as server:
        result = run(
            *("user", "password", "anna", "--server", server.address, "--username", "root"),
            stdin="secret\nold\nnew\nnew\n",
        )
        assert result.exit_code == 0, result.stderr
        login, change = server.commands
        assert isinstance(login, commands.LoginUser)
        assert (login.username, login.password) == ("root", "secret")
        assert change == commands.ChangePassword("anna", "old", "new")
        assert "secret" not in result.output


def test_a_token_logs_in() -> None:
    with scripted_in_a_thread(LOGGED_IN, Answer(OK)) as server:
        result = run("stream", "list", BORZOI_SERVER=server.address, BORZOI_TOKEN="abc")
        assert (result.exit_code, result.stdout) == (0, "(none)\n")
        assert server.commands[0] == commands.LoginWithPersonalAccessToken("abc")


def test_snapshots_are_written_to_a_file(tmp_path: Any) -> None:
    with scripted_in_a_thread(LOGGED_IN, Answer(encode_response(0, b"PK"))) as server:
        result = run(
            *("snapshot", "-c", "zstd", "-s", "test", "-s", "server_logs", "-o", str(tmp_path)),
            BORZOI_SERVER=f"iggy://iggy:iggy@{server.address}",
        )
        assert result.exit_code == 0, result.stderr
        wanted = (SnapshotType.TEST, SnapshotType.SERVER_LOGS)
        assert server.commands[1] == commands.GetSnapshot(SnapshotCompression.ZSTD, wanted)
    (written,) = tmp_path.iterdir()
    assert result.stdout == f"{written}\n"
    assert written.read_bytes() == b"PK"


def test_what_the_server_refuses_is_one_line() -> None:
    with scripted_in_a_thread(LOGGED_IN, Answer(encode_response(1009))) as server:
        result = run("stream", "delete", "s", BORZOI_SERVER=f"iggy://iggy:iggy@{server.address}")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith("Error: ")
    assert result.stderr.count("\n") == 1


def test_what_is_not_there_is_an_error() -> None:
    with scripted_in_a_thread(LOGGED_IN, Answer(OK), Answer(OK)) as server:
        result = run("topic", "get", "s", "t", BORZOI_SERVER=f"iggy://a:b@{server.address}")
    assert (result.exit_code, result.stderr) == (1, "Error: stream s does not exist\n")


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("stream list", "this needs a login"),
        ("stream list --username a --password b --server localhost:x", "port is not a number"),
        ("stream list --username a --password b --server 127.0.0.1:1", "cannot connect"),
        ("stream list --server iggy://a:b@127.0.0.1:1 --token c", "in one place only"),
        ("stream create", "Missing argument 'NAME'"),
        ("topic create s t 1 none soon", "is no duration"),
        ("topic create s t 1 -m big", "is no size"),
        ("user create anna x -g fly", "is no right"),
        ("message send s t x -H k:v", "is no header"),
        ("tail nowhere", "is not STREAM/TOPIC"),
        ("frobnicate", "No such command"),
        ("stream frobnicate", "No such command"),
    ],
)
def test_what_cannot_be_done(words: str, reason: str) -> None:
    result = run(*words.split())
    assert result.exit_code in (1, 2)
    assert reason in result.stderr
    assert "Traceback" not in result.output


@pytest.mark.parametrize("name", CLIENT)
def test_help_of_every_command(name: str) -> None:
    result = run(name, "-h")
    assert result.exit_code == 0
    assert result.stdout.startswith(f"Usage: main {name}")
