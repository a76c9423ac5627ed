"""No secret in anything that is written: files, logs, answers, process lists.

Everything that takes a secret is done with one that can be found again, right and wrong, whole
and cut off, on both shards, at the most talkative log level; then all of it is searched.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest

from borzoi.protocol.codes import Code
from borzoi.protocol.commands import Command
from borzoi.protocol.commands.sessions import (
    CreatePersonalAccessToken,
    DeletePersonalAccessToken,
    GetPersonalAccessTokens,
    LoginUser,
    LoginWithPersonalAccessToken,
)
from borzoi.protocol.commands.users import (
    ChangePassword,
    CreateUser,
    GetUser,
    GetUsers,
    UpdatePermissions,
    UpdateUser,
)
from borzoi.protocol.generations import code_of, decode_reply, encode_command
from borzoi.protocol.permissions import ALL_PERMISSIONS, Permissions, UserStatus
from borzoi.protocol.responses.users import RawToken
from tests.broker import BrokerProcess
from tests.conftest import NewBroker
from tests.integration.test_reset_root import reset
from tests.shard_wires import TWO_SHARDS, one_per_shard
from tests.wire import Closed, Wire

pytestmark = pytest.mark.slow

ROOT_SECRET = "marker-root-9f2c"
MARKERS = ("marker-", "MARKER-")


@dataclass
class Spoken:
    """What was said to the broker in confidence, and all its answers."""

    secrets: list[str] = field(default_factory=lambda: list(MARKERS))
    answers: list[bytes] = field(default_factory=list)

    def ask(self, wire: Wire, command: Command) -> None:
        """A request, right or wrong."""
        self.call(wire, code_of(command), encode_command(command))

    def call(self, wire: Wire, code: int, payload: bytes) -> None:
        status, answer = wire.request(code, payload)
        self.answers.append(status.to_bytes(4, "little") + answer)

    def new_token(self, wire: Wire, name: str) -> str:
        """The one answer that must hold a secret."""
        command = CreatePersonalAccessToken(name, 0)
        status, answer = wire.request(code_of(command), encode_command(command))
        assert status == 0
        raw = decode_reply(code_of(command), memoryview(answer))
        assert isinstance(raw, RawToken)
        self.secrets.append(raw.token)
        return raw.token

    def leaks(self, written: dict[str, bytes]) -> list[str]:
        """Where a secret can be read."""
        return [
            f"{secret[:12]}.. in {name}"
            for name, content in written.items()
            for secret in self.secrets
            if secret.encode() in content
        ]


def speak(spoken: Spoken, wire: Wire, number: int) -> None:
    """Everything that takes a secret."""
    user = f"user-{number}"
    first, second = f"marker-first-{number}", f"marker-second-{number}"
    wrong = f"marker-wrong-{number}"
    spoken.ask(wire, LoginUser("iggy", ROOT_SECRET))
    for permissions in (ALL_PERMISSIONS, Permissions(), None):
        spoken.ask(wire, CreateUser(user, first, UserStatus.ACTIVE, permissions))
    spoken.ask(wire, CreateUser("no", first))
    spoken.ask(wire, CreateUser(f"{user}-long", "marker-" * 15))
    spoken.ask(wire, ChangePassword(user, wrong, second))
    spoken.ask(wire, ChangePassword("absent", first, second))
    spoken.ask(wire, ChangePassword(user, first, second))
    spoken.ask(wire, UpdateUser(user, f"{user}-renamed"))
    spoken.ask(wire, UpdatePermissions(f"{user}-renamed", None))
    spoken.ask(wire, UpdateUser(f"{user}-renamed", user))
    token, revoked = spoken.new_token(wire, "kept"), spoken.new_token(wire, "revoked")
    spoken.ask(wire, CreatePersonalAccessToken("kept", 0))
    spoken.ask(wire, DeletePersonalAccessToken("revoked"))
    for command in (GetUser(user), GetUsers(), GetPersonalAccessTokens()):
        spoken.ask(wire, command)
    for text in (token, revoked, token.swapcase(), "marker-token"):
        spoken.ask(wire, LoginWithPersonalAccessToken(text))
    spoken.secrets.append(token.swapcase())
    for password in (second, first, *[wrong] * 8, "marker-" * 15):
        spoken.ask(wire, LoginUser(user, password))
    spoken.ask(wire, LoginUser("absent", wrong))
    spoken.ask(wire, LoginUser("iggy", ROOT_SECRET))
    spoken.ask(wire, UpdateUser(user, status=UserStatus.INACTIVE))
    spoken.ask(wire, LoginUser(user, second))
    spoken.ask(wire, DeletePersonalAccessToken("kept"))


def speak_unclearly(spoken: Spoken, broker: BrokerProcess) -> None:
    """The same requests cut off, under other codes, and as no request at all."""
    login = encode_command(LoginUser("iggy", "marker-cut", "marker-version", "marker-context"))
    change = encode_command(ChangePassword(0, "marker-cut", "marker-cut"))
    wire = Wire(broker, login=False)
    for payload in (login, change):
        for code in (*Code, 999):
            spoken.call(wire, code, payload)
        for end in range(len(payload)):
            spoken.call(wire, Code.LOGIN_USER, payload[:end])
            spoken.call(wire, Code.CHANGE_PASSWORD, payload[:end])
    wire.put(b"marker-is-no-frame" * 100)
    try:
        while True:
            status, answer = wire.answer()
            spoken.answers.append(status.to_bytes(4, "little") + answer)
    except Closed:
        pass
    wire.close()


def written_files(directory: Path) -> Iterator[tuple[str, bytes]]:
    for path in sorted(directory.rglob("*")):
        if path.is_file():
            yield str(path), path.read_bytes()


def command_lines(broker: BrokerProcess) -> bytes:
    pids = [broker.pid, *broker.workers().values()]
    return "\n".join(" ".join(psutil.Process(pid).cmdline()) for pid in pids).encode()


def test_no_secret_can_be_read_anywhere(new_broker: NewBroker) -> None:
    broker = new_broker(
        **TWO_SHARDS,
        IGGY_ROOT_USERNAME="iggy",
        IGGY_ROOT_PASSWORD=ROOT_SECRET,
        IGGY_SYSTEM_LOGGING_LEVEL="trace",
        # The same user fails often here, and must still get in.
        IGGY_LIMITS_LOGIN_BACKOFF_MIN="1ms",
        IGGY_LIMITS_LOGIN_BACKOFF_MAX="1ms",
    )
    spoken = Spoken()
    with one_per_shard(broker, LoginUser("iggy", ROOT_SECRET)) as wires:
        for number, wire in enumerate(wires):
            speak(spoken, wire, number)
    speak_unclearly(spoken, broker)
    lines = command_lines(broker)
    broker.stop()
    done = reset(broker.data, stdin="marker-of-a-reset\n")
    assert done.returncode == 0
    broker.start()
    wire = Wire(broker, login=False)
    spoken.ask(wire, LoginUser("iggy", "marker-of-a-reset"))
    broker.stop()

    log = (broker.data / "logs" / "iggy-server.log").read_text()
    # It was talkative, and it saw what went on.
    assert "DEBUG" in log
    assert "login of 'user-0' from 127.0.0.1 failed" in log
    assert spoken.answers[-1] == bytes(8)
    written = {
        **dict(written_files(broker.data)),
        "output": broker.output().encode(),
        "answers": b"".join(spoken.answers),
        "command lines": lines,
        "reset-root": (done.stdout + done.stderr).encode(),
    }
    assert spoken.leaks(written) == []
    # The search finds what is there.
    assert spoken.leaks({"answers": b"... marker-wrong-1 ..."}) == ["marker-.. in answers"]
    assert b"$argon2id$v=19$m=19456,t=2,p=1$" in written[str(broker.data / "state.messages")]
