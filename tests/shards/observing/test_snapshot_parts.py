"""Parts of a snapshot: bounded, honest about what is missing, and silent about secrets."""

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from borzoi.protocol.commands.system import SnapshotType
from borzoi.shards.config import Config
from borzoi.shards.identity.root_account import PASSWORD_VARIABLE, store_root_password
from borzoi.shards.observing import snapshot_parts
from borzoi.shards.observing.programs import run_command
from borzoi.shards.observing.snapshot_parts import (
    EVERYTHING,
    PARTS,
    SnapshotSources,
    collect,
    filesystem_overview,
    masked,
    process_list,
    server_logs,
)
from borzoi.shards.observing.snapshots import known_secrets
from borzoi.shards.settings.schema import Encryption, System

SECRET = "correct-horse-battery"
SIZE_MAX = 4 * 1024 * 1024


@pytest.fixture
def sources(tmp_path: Path) -> SnapshotSources:
    logs = tmp_path / "logs"
    logs.mkdir()
    (logs / "iggy-server.log").write_bytes(b"newest\n")
    (logs / "iggy-server.log.2").write_bytes(b"older\n")
    (logs / "iggy-server.log.1").write_bytes(b"oldest\n")
    (logs / "core.1234").write_bytes(b"something else\n")
    config = tmp_path / "current_config.toml"
    config.write_text("[tcp]\n")
    return SnapshotSources(
        tmp_path, logs, config, os.getpid(), (SECRET.encode(),), b"shard 0: counted\n"
    )


def soon() -> float:
    return time.monotonic() + 30


def test_every_type_has_its_part() -> None:
    assert set(PARTS) == set(SnapshotType) - {SnapshotType.ALL}


@pytest.mark.parametrize("types", [(SnapshotType.ALL,), ()])
def test_all_is_everything_but_the_test(
    sources: SnapshotSources, types: tuple[SnapshotType, ...]
) -> None:
    assert list(collect(types, sources)) == [
        "filesystem_overview.txt",
        "process_list.txt",
        "resource_usage.txt",
        "server_logs.txt",
        "server_config.txt",
    ]
    assert set(EVERYTHING) == set(PARTS) - {SnapshotType.TEST}


def test_each_type_once_in_the_order_asked_for(sources: SnapshotSources) -> None:
    types = (SnapshotType.SERVER_CONFIG, SnapshotType.TEST, SnapshotType.SERVER_CONFIG)
    assert collect(types, sources) == {"server_config.txt": b"[tcp]\n", "test.txt": b"test\n"}


def test_logs_oldest_first(sources: SnapshotSources) -> None:
    assert server_logs(sources, soon()) == b"oldest\nolder\nnewest\n"


def test_of_too_many_logs_the_newest(sources: SnapshotSources) -> None:
    text = server_logs(sources, soon(), size_max=10)
    assert text == b"... 10 bytes of older lines left out\nnewest\n"


def test_no_logs(sources: SnapshotSources, tmp_path: Path) -> None:
    for path in sources.logs.iterdir():
        path.unlink()
    assert server_logs(sources, soon()) == b"there are no log files\n"
    # The entry names a directory that is not there, and the others are not spoilt.
    gone = sources._replace(logs=tmp_path / "absent", config=tmp_path / "absent")
    types = (SnapshotType.SERVER_LOGS, SnapshotType.SERVER_CONFIG, SnapshotType.TEST)
    entries = collect(types, gone)
    assert entries["server_logs.txt"].startswith(b"could not be collected: ")
    assert entries["server_config.txt"].startswith(b"could not be collected: ")
    assert entries["test.txt"] == b"test\n"


def test_what_comes_too_late_is_left_out(sources: SnapshotSources) -> None:
    times = iter([0.0, 1.0, 11.0])
    entries = collect((SnapshotType.TEST, SnapshotType.SERVER_CONFIG), sources, lambda: next(times))
    assert entries["test.txt"] == b"test\n"
    assert entries["server_config.txt"].startswith(b"left out: ")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("echo", "hello"), b"hello\n"),
        (("no-such-program",), b"no-such-program is not installed here\n"),
        (("sh", "-c", "echo out; echo err >&2; exit 3"), b"out\nerr\nsh ended with 3\n"),
    ],
)
def test_programs(arguments: tuple[str, ...], expected: bytes) -> None:
    assert run_command(arguments, soon(), SIZE_MAX) == expected


def test_a_program_that_does_not_end() -> None:
    began = time.monotonic()
    output = run_command(
        ("sh", "-c", "echo some; exec sleep 600"), soon(), SIZE_MAX, time_max_s=0.3
    )
    assert output == b"some\n\n... sh was stopped: too slow or too much\n"
    assert time.monotonic() - began < 300
    # One whose time is over before it begins.
    assert b"was stopped" in run_command(("sleep", "600"), time.monotonic(), SIZE_MAX)


def test_a_program_that_does_not_stop_printing() -> None:
    output = run_command(("yes",), soon(), 100_000)
    assert len(output) < 101_000
    assert output.endswith(b"... yes was stopped: too slow or too much\n")


def test_programs_see_nothing_of_our_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MARKER", SECRET)
    assert SECRET.encode() not in run_command(("env",), soon(), SIZE_MAX)
    assert b"HOME" not in run_command(("env",), soon(), SIZE_MAX)


def test_listings_end(sources: SnapshotSources) -> None:
    assert b"... and more" in filesystem_overview(sources, soon(), listed_max=1)
    assert b"... and more" in process_list(sources, soon(), listed_max=0)


def test_parts_are_cut(sources: SnapshotSources) -> None:
    sources.config.write_bytes(b"x" * (snapshot_parts.PART_SIZE_MAX + 5))
    text = collect((SnapshotType.SERVER_CONFIG,), sources)["server_config.txt"]
    assert text.endswith(b"x\n... 5 bytes left out\n")


def test_our_own_processes_are_described(sources: SnapshotSources) -> None:
    text = PARTS[SnapshotType.PROCESS_LIST](sources, soon())
    assert f"\n/proc/{os.getpid()}/status:\n".encode() in text
    assert b"\nMax open files" in text


def test_what_became_of_old_segments_is_shown(sources: SnapshotSources) -> None:
    text = PARTS[SnapshotType.RESOURCE_USAGE](sources, soon())
    assert text.startswith(b"old segments:\nshard 0: counted\n\n/proc/")


def test_secrets_are_masked_wherever_they_turn_up(sources: SnapshotSources) -> None:
    (sources.logs / "iggy-server.log").write_text(f"a line with {SECRET}!\n")
    sources.config.write_text(f'key = "{SECRET}"\n')
    (sources.data / f"file-{SECRET}").touch()
    entries = collect((SnapshotType.ALL,), sources)
    assert not [name for name, text in entries.items() if SECRET.encode() in text]
    assert b"a line with ******!" in entries["server_logs.txt"]
    assert b"file-******" in entries["filesystem_overview.txt"]


def test_ordinary_words_are_not_taken_for_secrets() -> None:
    assert masked(b"iggy-server", (b"iggy", b"")) == b"iggy-server"


def test_the_file_of_the_root_password_is_not_even_named(sources: SnapshotSources) -> None:
    store_root_password(sources.data, "another-good-secret")
    text = PARTS[SnapshotType.FILESYSTEM_OVERVIEW](sources, soon())
    assert b"root_password" not in text.partition(b"/proc:")[0]
    assert b"logs/iggy-server.log" in text


def test_which_secrets_are_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PASSWORD_VARIABLE, "from the environment")
    config = Config(system=System(encryption=Encryption(key="a key in base64")))
    assert set(known_secrets(config, tmp_path)) == {b"a key in base64", b"from the environment"}
    store_root_password(tmp_path, "generated")
    assert b"generated" in known_secrets(config, tmp_path)


def test_names_of_files_that_are_no_text(sources: SnapshotSources) -> None:
    name = os.fsencode(sources.data) + b"/\xff\xfe"
    with open(name, "wb"):
        pass
    listing: Callable[[SnapshotSources, float], bytes] = PARTS[SnapshotType.FILESYSTEM_OVERVIEW]
    assert b"\xff\xfe" in listing(sources, soon())
