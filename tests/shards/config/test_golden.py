"""What the configuration says stays the same, word for word: values, warnings and problems.

tests/golden/config.jsonl.gz has one case a line: a settings file, variables, and what came of
them. Every setting is there with values of the wrong kind and out of its bounds, in the file and
as a variable. A case is changed only together with the setting it is about.
"""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from borzoi.shards.config import Config, ConfigError, check_file, load_config, render_toml
from borzoi.shards.config.not_yet import NOT_YET

GOLDEN = Path(__file__).parents[2] / "golden" / "config.jsonl.gz"
CPUS = (0, 1, 2, 3)


def outcome(directory: Path, document: str, environ: dict[str, str]) -> list[str]:
    """Problems, or else warnings, sources and the rendered lines that differ from the defaults."""
    path = directory / "config.toml"
    path.write_text(document)
    (directory / ".env").write_text("IGGY_LIMITS_CHANGES_BURST='7' # dotenv\nno assignment\n")
    lines = [f"check: {text}" for text in check_file(path, available_cpus=CPUS)]
    try:
        loaded = load_config(
            {**environ, "IGGY_CONFIG_PATH": str(path)}, directory, available_cpus=CPUS
        )
    except ConfigError as error:
        lines += [f"problem: {text}" for text in error.problems]
    else:
        lines += [f"warning: {text}" for text in loaded.warnings]
        lines += [f"source: {text}" for text in loaded.sources]
        rendered = render_toml(loaded.config).splitlines()
        lines += [f"{line}" for line in rendered if line not in DEFAULTS]
    return [line.replace(str(directory), "DIRECTORY") for line in lines]


def cases() -> list[Any]:
    with gzip.open(GOLDEN, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


CASES = cases()
DEFAULTS = frozenset(CASES[0]["rendered"]) | frozenset(render_toml(Config()).splitlines())
"""Then, and of settings that are new since."""

SERVED_SINCE = (
    "TLS is not served yet, TCP stays in clear text",
    "WebSocket is not served yet",
    "QUIC is not served yet",
    *(reason for key, reason in NOT_YET.items() if key.startswith(("websocket.", "quic."))),
)


NEARER_SINCE = ("the nearest known one is 'console'", "the nearest known one is 'tcp'")
"""A table of later, and the one that was nearest to a wrong name before."""


CHOICE_SINCE = (', "replicated"', "")
"""A choice of later."""


def not_past(lines: list[str]) -> list[str]:
    """Without what is of later: parts that did not exist then, names that are nearer than then."""
    kept = [line for line in lines if not line.endswith(SERVED_SINCE)]
    return [line.replace(*NEARER_SINCE).replace(*CHOICE_SINCE) for line in kept]


def test_the_defaults(tmp_path: Path) -> None:
    """Each line in its order; a new setting may stand between them."""
    rendered = iter(render_toml(load_config({}, tmp_path).config).splitlines())
    for line in CASES[0]["rendered"]:
        assert line in rendered


@pytest.mark.slow
def test_every_setting_in_every_way(tmp_path: Path) -> None:
    for case in CASES[1:]:
        found = outcome(tmp_path, case["document"], case["environ"])
        expected = not_past(case["outcome"])
        assert not_past(found) == expected, (case["document"], case["environ"])
