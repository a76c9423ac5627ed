"""`borzoi archive ls`, `verify` and `restore`: the archive, with or without a running broker.

The place is that of the configuration, or a directory named with --path. Nothing in the archive
is ever changed from here.
"""

import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

import click
import msgspec

from borzoi.shards.admin.archive_restore import (
    CannotRestore,
    Selection,
    choose_state,
    fetch_state,
    restore,
)
from borzoi.shards.admin.archive_verify import verify
from borzoi.shards.admin.config_option import config_option, load_named
from borzoi.shards.config import Config, ConfigError
from borzoi.shards.metadata.state import State
from borzoi.shards.upkeep.archive_store import open_store
from borzoi.shards.upkeep.archived_state import load_state, open_key
from borzoi.storage.archive.catalogue import (
    ArchivedLife,
    archived_lives,
    archived_states,
    read_segment_manifest,
)
from borzoi.storage.archive.copying import ObjectDamaged
from borzoi.storage.archive.manifest import Life, ManifestDamaged
from borzoi.storage.archive.store import ArchiveStore, DirectoryStore, StoreFailed
from borzoi.storage.encryption_key import KeyRefused
from borzoi.storage.files import Files
from borzoi.storage.layout import DataLayout
from borzoi.storage.wal import WalDamaged
from borzoi.terminal import in_json, json_option, say, say_json

FAILED: Final = 1
NOT_ARCHIVED: Final = (
    "not in the archive: segments that were not sealed or not archived yet, what was deleted before"
)
PROBLEMS: Final = (
    CannotRestore,
    ConfigError,
    KeyRefused,
    ManifestDamaged,
    ObjectDamaged,
    StoreFailed,
    WalDamaged,
    OSError,
)

Command = TypeVar("Command", bound=Callable[..., Any])


def place_options(command: Command) -> Command:
    """Where the archive is."""
    for option in (
        click.option(
            "--path",
            type=click.Path(exists=True, file_okay=False, path_type=Path),
            help="The directory of the archive, instead of the one the configuration names.",
        ),
        config_option,
    ):
        command = option(command)
    return command


def choice_options(command: Command) -> Command:
    """Which part of it."""
    for option in (
        click.option("--partition", type=click.IntRange(min=0), help="Only this partition."),
        click.option("--topic", help="Only this topic, by id or name."),
        click.option("--stream", help="Only this stream, by id or name."),
    ):
        command = option(command)
    return command


@click.group()
def archive() -> None:
    """Look at the archive of sealed segments, verify it, restore from it."""


@archive.command("ls")
@place_options
@click.option("--json", "as_json", is_flag=True, help="One JSON object for each line.")
def ls(config_path: Path | None, path: Path | None, as_json: bool) -> None:
    """List what is archived: states of the metadata, and partitions with their offsets."""
    try:
        config, store = _open(config_path, path)
        states = archived_states(store)
        state = _newest_state(config, store)
        rows = [_row(store, state, one) for one in archived_lives(store)]
    except PROBLEMS as error:
        _fail(error)
    if as_json or in_json():
        for one in states:
            say_json(msgspec.json.encode({"metadata_entry": one.entry}))
        for row in rows:
            say_json(msgspec.json.encode(row))
        return
    say(f"{store.name}: metadata up to entry " + (", ".join(str(s.entry) for s in states)))
    for row in rows:
        say(
            f"{row['stream']}/{row['topic']}/{row['partition']}  birth {row['birth']}"
            f"{'' if row['is_current'] else ' (an earlier life)'}  offsets {row['first_offset']} to"
            f" {row['last_offset']}  {row['segments']} segments  {row['size_bytes']} bytes"
        )


@archive.command("verify")
@place_options
@choice_options
@json_option
def verify_command(
    config_path: Path | None,
    path: Path | None,
    stream: str | None,
    topic: str | None,
    partition: int | None,
) -> None:
    """Read every object and compare it with its manifest. Exit code 1 if one is damaged."""
    try:
        config, store = _open(config_path, path)
        selection = _selection(stream, topic, partition)
        chosen = _chosen(_newest_state(config, store), selection)
        found = verify(store, chosen, lambda line: say(line, err=True))
    except PROBLEMS as error:
        _fail(error)
    if in_json():
        say_json(msgspec.json.encode({"archive": store.name, **found._asdict()}))
        sys.exit(FAILED if found.damaged else 0)
    say(
        f"{store.name}: {found.segments} segments and {found.states} states of the metadata,"
        f" {found.size_bytes} bytes, {found.damaged} damaged"
    )
    if found.damaged:
        sys.exit(FAILED)


@archive.command("restore")
@place_options
@choice_options
@click.option(
    "--into",
    required=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="The data directory to fill: empty, or not there yet.",
)
@click.option(
    "--skip-damaged", is_flag=True, help="Leave damaged segments and offsets out, with a word."
)
@click.option("--entry", type=int, help="The metadata as of this entry of its log, or before.")
@json_option
def restore_command(
    config_path: Path | None,
    path: Path | None,
    into: Path,
    stream: str | None,
    topic: str | None,
    partition: int | None,
    entry: int | None,
    skip_damaged: bool,
) -> None:
    """Bring everything back, or a stream, a topic or a partition, into an empty data directory.

    Start a broker on it afterwards, with system.path set to it. It archives to a path or prefix of
    its own: the archive stays that of the old data directory.
    """
    try:
        config, store = _open(config_path, path)
        system = config.system
        layout = DataLayout(into, system.stream.path, system.topic.path, system.partition.path)
        selection = _selection(stream, topic, partition)
        done = restore(
            store,
            layout,
            selection,
            entry,
            system,
            partial(say, err=in_json()),
            skip_damaged=skip_damaged,
        )
    except PROBLEMS as error:
        _fail(error)
    if in_json():
        say_json(msgspec.json.encode({"directory": str(into), **done._asdict()}))
        return
    say(
        f"{into}: metadata up to entry {done.entry}, {done.partitions} partitions,"
        f" {done.segments} segments, {done.size_bytes} bytes"
    )
    say(NOT_ARCHIVED)


def _open(config_path: Path | None, path: Path | None) -> tuple[Config, ArchiveStore]:
    config = load_named(config_path).config
    store = open_store(config, Files()) if path is None else DirectoryStore(str(path), Files())
    if not (archived_states(store) or archived_lives(store)):
        raise CannotRestore(
            f"{store.name} holds no archive: a broker makes one there with"
            " data_maintenance.archiver.enabled and system.backup.path"
        )
    return config, store


def _fail(error: Exception) -> Any:
    if in_json():
        about = {"name": type(error).__name__, "message": f"{error}"}
        say_json(msgspec.json.encode({"error": about}), err=True)
    else:
        say(f"borzoi: {error}", err=True)
    sys.exit(FAILED)


def _selection(stream: str | None, topic: str | None, partition: int | None) -> Selection:
    if topic is not None and stream is None:
        raise CannotRestore("--topic needs --stream")
    if partition is not None and topic is None:
        raise CannotRestore("--partition needs --topic")
    return Selection(_identifier(stream), _identifier(topic), partition)


def _identifier(text: str | None) -> int | str | None:
    return int(text) if text is not None and text.isascii() and text.isdigit() else text


def _chosen(state: State | None, selection: Selection) -> Callable[[Life], bool]:
    """Whether a life, current or earlier, belongs to what was chosen."""
    stream, topic = selection.stream, selection.topic
    if state is not None and stream is not None and (found := state.find_stream(stream)):
        stream = found.id
        if topic is not None and (of_topic := found.find_topic(topic)):
            topic = of_topic.id
    if isinstance(stream, str) or isinstance(topic, str):
        raise CannotRestore(f"the metadata in the archive knows no {stream}/{topic}")

    def is_chosen(life: Life) -> bool:
        wanted = (stream, topic, selection.partition)
        return all(one in (None, id) for one, id in zip(wanted, life, strict=False))

    return is_chosen


def _newest_state(config: Config, store: ArchiveStore) -> State | None:
    """For names. An archive without sound metadata is shown by its ids."""
    with tempfile.TemporaryDirectory(prefix="borzoi-archive-") as directory:
        try:
            entry = choose_state([one.entry for one in archived_states(store)], None)
            fetch_state(store, entry, directory, Files())
            encryption = open_key(config.system, directory, Files())
            return load_state(directory, Files(), encryption).state
        except PROBLEMS as error:
            say(f"borzoi: no names: {error}", err=True)
            return None


def _row(store: ArchiveStore, state: State | None, archived: ArchivedLife) -> dict[str, Any]:
    life, segments, size_bytes = archived
    stream = state.find_stream(life.stream_id) if state is not None else None
    topic = stream.find_topic(life.topic_id) if stream is not None else None
    place = topic.find_partition(life.partition_id) if topic is not None else None
    is_current = place is not None and place.birth == life.birth
    named = is_current and stream is not None and topic is not None
    return {
        "stream": stream.name if named and stream is not None else life.stream_id,
        "topic": topic.name if named and topic is not None else life.topic_id,
        "partition": life.partition_id,
        "birth": life.birth,
        "is_current": is_current,
        "first_offset": segments[0],
        "last_offset": read_segment_manifest(store, life, segments[-1]).end_offset - 1,
        "segments": len(segments),
        "size_bytes": size_bytes,
    }
