"""What `borzoi encryption status`, `rotate` and `forget` do; loaded when one of them runs."""

import json
import os
import sys
import time
from pathlib import Path
from typing import Final

from borzoi.shards.admin.commands import load_or_exit, report
from borzoi.shards.config import ConfigError
from borzoi.shards.directory.key import configured_keys, exchange, read_key_file
from borzoi.shards.directory.lock import lock_data_directory
from borzoi.shards.keys.key_file import new_key, write_keys_to
from borzoi.shards.rotation.progress import Need, needs
from borzoi.shards.rotation.request import ask, is_asked, refusal
from borzoi.shards.settings.schema import System, archives
from borzoi.storage.encryption_key import EncryptionKey, KeyRefused, compare_check
from borzoi.storage.files import Files
from borzoi.storage.layout import DataLayout
from borzoi.terminal import in_json, say, say_json

ANSWER_TIMEOUT_S: Final = 30.0
ANSWER_INTERVAL_S: Final = 0.1


class _Place:
    """The data directory and the keys that the configuration names."""

    def __init__(self, config_path: Path | None) -> None:
        self.config = load_or_exit(config_path).config
        self.system: System = self.config.system
        self.files = Files()
        self.layout = DataLayout(
            Path(self.system.path),
            self.system.stream.path,
            self.system.topic.path,
            self.system.partition.path,
        )
        self.keys = configured_keys(self.system.encryption)
        self.needed = self.read_needed(self.keys)
        if not self.needed:
            raise ConfigError(f"{self.layout.root}: nothing in it is encrypted: needs no key")

    def read_needed(self, keys: list[EncryptionKey]) -> list[EncryptionKey]:
        """The keys that the directory needs, that of now first."""
        try:
            return compare_check(self.layout, self.files, keys)
        except KeyRefused as error:
            raise ConfigError(str(error)) from error

    @property
    def key_file(self) -> Path:
        """The file that a command may change."""
        settings = self.system.encryption
        if not settings.key_file or settings.key or settings.old_keys:
            raise ConfigError(
                "the key comes from system.encryption.key: needs system.encryption.key_file alone."
                " With a broker that is stopped, put the new key into system.encryption.key and"
                " the old one into system.encryption.old_keys, and start it"
            )
        return Path(settings.key_file)


def status(config_path: Path | None) -> None:
    """Print the keys and what needs them."""
    try:
        place = _Place(config_path)
        found = needs(place.layout, place.files, place.keys, place.needed[0])
    except ConfigError as error:
        sys.exit(report(error))
    except OSError as error:
        sys.exit(report(ConfigError(f"the data directory cannot be read: {error}")))
    required = {key.id for key in place.needed}
    waiting = sum(one.segments.segments for one in found if one.key_id and not one.is_current)
    if in_json():
        rows = [_as_json(one, required) for one in found]
        say_json(json.dumps({"keys": rows, "waiting_segments": waiting}, indent=2))
        return
    say(f"{'key':<16}  {'state':<10}  {'segments':>8}  {'bytes':>14}  {'metadata':>8}")
    for one in found:
        metadata = "?" if one.metadata is None else f"{one.metadata}"
        size = one.segments.size_bytes
        say(
            f"{one.key_id.hex() or '(in clear)':<16}  {_state(one, required):<10}"
            f"  {one.segments.segments:>8}  {size:>14}  {metadata:>8}"
        )
    say(
        f"{waiting} segments have to be encrypted once more"
        if waiting
        else "every encrypted segment has the key that is in use"
    )


def _state(one: Need, required: set[bytes]) -> str:
    if not one.key_id:
        return "-"
    if one.is_current:
        return "in use"
    return "needed" if one.key_id in required else "not needed"


def _as_json(one: Need, required: set[bytes]) -> dict[str, object]:
    return {
        "key_id": one.key_id.hex() or None,
        "state": _state(one, required).replace(" ", "_") if one.key_id else None,
        "segments": one.segments.segments,
        "size_bytes": one.segments.size_bytes,
        "metadata": one.metadata,
    }


def rotate(config_path: Path | None, again: bool) -> None:
    """Exchange the key."""
    try:
        place = _Place(config_path)
        if not place.system.encryption.enabled:
            raise ConfigError("system.encryption.enabled is false: needs true to exchange the key")
        if len(place.needed) > 1 and not again:
            raise ConfigError(
                "an exchange is going on: `borzoi encryption status` shows what waits for it;"
                " --again begins another one all the same"
            )
        path = place.key_file
        keys = read_key_file(str(path))
        is_made = keys[0] == place.needed[0]
        if is_made:
            keys = [new_key(), *keys]
            write_keys_to(path, keys)
        runs = _take(place, keys)
    except ConfigError as error:
        sys.exit(report(error))
    key_id, old_id = keys[0].id.hex(), place.needed[0].id.hex()
    if in_json():
        say_json(
            json.dumps(
                {"key_id": key_id, "old_key_id": old_id, "made": is_made, "broker_runs": runs}
            )
        )
        return
    say(f"The key is {key_id} from now on, the first line of {path}.")
    if runs:
        say("The broker has taken it, and encrypts what it has once more in the background.")
    else:
        say("No broker runs here: the next start encrypts what there is once more.")
    say(f"Keep the old key, {old_id}, until `borzoi encryption status` calls it not needed.")


def _take(place: _Place, keys: list[EncryptionKey]) -> bool:
    """Have the key taken; whether a broker runs. ConfigError if it does not take the key."""
    try:
        lock_fd = lock_data_directory(Path(place.layout.root), timeout_s=0.0)
    except ConfigError:
        _ask_broker(place, keys)
        return True
    try:
        exchange(place.layout, place.files, keys[0], place.needed)
    finally:
        os.close(lock_fd)
    return False


def _ask_broker(place: _Place, keys: list[EncryptionKey]) -> None:
    layout, files = place.layout, place.files
    ask(layout, files)
    deadline = time.monotonic() + ANSWER_TIMEOUT_S
    while time.monotonic() < deadline:
        if place.read_needed(keys)[0] == keys[0]:
            return
        reason = None if is_asked(layout) else refusal(layout, files)
        if reason is not None:
            raise ConfigError(f"the broker does not take the key: {reason}")
        time.sleep(ANSWER_INTERVAL_S)
    raise ConfigError(
        f"the broker has not taken the key after {ANSWER_TIMEOUT_S:.0f} s: look into its log; the"
        " new key stays in the key file"
    )


def forget(config_path: Path | None, yes: bool) -> None:
    """Print the keys that nothing needs; with `yes` remove them."""
    try:
        place = _Place(config_path)
        path = place.key_file
        keys = read_key_file(str(path))
        gone = [key for key in keys if key not in place.needed]
        if gone and yes:
            write_keys_to(path, [key for key in keys if key not in gone])
    except ConfigError as error:
        sys.exit(report(error))
    ids = [key.id.hex() for key in gone]
    if in_json():
        say_json(json.dumps({"not_needed": ids, "removed": ids if yes else []}))
        return
    if not gone:
        say(f"every key in {path} is needed")
    elif yes:
        say(f"removed from {path}: {', '.join(ids)}")
    else:
        say(f"not needed any more in {path}: {', '.join(ids)}; --yes removes them")
        if archives(place.config):
            say("the archive keeps what was encrypted with them: it cannot be restored without")
