"""`borzoi doctor`: the looks in order, as lines or as JSON; exit code 1 if a start would fail."""

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import click

from borzoi.shards.admin.config_option import config_option, load_named
from borzoi.shards.config import Config, ConfigError
from borzoi.shards.doctor.finding import Finding, Verdict
from borzoi.shards.doctor.looks import (
    look_at_clock,
    look_at_data,
    look_at_disk,
    look_at_doors,
    look_at_host,
    look_at_limits,
    look_at_program,
)
from borzoi.terminal import in_json, json_option, say, say_beside, say_json

LOOKS: Final[tuple[Callable[[Config], Iterator[Finding]], ...]] = (
    look_at_program,
    look_at_host,
    look_at_limits,
    look_at_data,
    look_at_disk,
    look_at_clock,
    look_at_doors,
)
MARKS: Final = {Verdict.FINE: "ok", Verdict.NOTE: "note", Verdict.BAD: "BAD"}
CONFIGURATION: Final = "configuration"


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@config_option
@json_option
def doctor(config_path: Path | None) -> None:
    """Look whether a broker can run here, with these settings: found, needed, how to mend.

    Nothing is started or changed. The exit code is 1 if a start would fail.
    """
    findings = list(examine(config_path))
    if in_json():
        say_json(json.dumps([{**one._asdict(), "verdict": one.verdict.value} for one in findings]))
    else:
        for one in findings:
            _say(one)
    sys.exit(any(one.verdict is Verdict.BAD for one in findings))


def examine(config_path: Path | None) -> Iterator[Finding]:
    """All findings. Without a configuration there are no others."""
    needed = "every setting known and within its bounds"
    try:
        loaded = load_named(config_path)
    except ConfigError as error:
        for problem in error.problems:
            yield Finding(CONFIGURATION, Verdict.BAD, problem, needed, "change the setting")
        return
    for warning in loaded.warnings:
        yield Finding(CONFIGURATION, Verdict.NOTE, warning, needed, "change or remove the setting")
    if not loaded.warnings:
        yield Finding(CONFIGURATION, Verdict.FINE, ", ".join(loaded.sources), needed)
    for look in LOOKS:
        try:
            yield from look(loaded.config)
        except OSError as error:
            subject = look.__name__.removeprefix("look_at_")
            yield Finding(subject, Verdict.NOTE, f"cannot be looked at: {error}", "leave to look")


def _say(one: Finding) -> None:
    say_beside(f"{MARKS[one.verdict]:<5}", f"{one.subject}: {one.found}")
    if one.verdict is not Verdict.FINE:
        say(f"                needed: {one.needed}")
        if one.remedy:
            say(f"                mend: {one.remedy}")
