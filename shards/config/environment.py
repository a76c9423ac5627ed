"""IGGY_... environment variables on top of the settings of the file, and the dotenv file of more.

Which names exist follows from the schema: no underscore is guessed at. Does no I/O: the variables
come in as a mapping, the dotenv file as text. Always: the value of a variable appears in no
warning, because an unknown name may well hold a secret.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import pairwise
from typing import Any, Final

from borzoi.shards.config.documents import Findings, Settings, complaint
from borzoi.shards.config.tree import ENV_INDEXES, Path, environment_names
from borzoi.shards.settings.errors import nearest

PREFIX: Final = "IGGY_"

# Read by other parts of the broker, by its tests or by companion programs: no settings, no warning.
OTHER_NAMES: Final = frozenset(
    {
        "IGGY_CI_BUILD",
        "IGGY_CONFIG_PATH",
        "IGGY_CONNECTORS_CONFIG_PATH",
        "IGGY_DISPLAY_CONFIG",
        "IGGY_ENV_PATH",
        "IGGY_MCP_CONFIG_PATH",
        "IGGY_ROOT_PASSWORD",
        "IGGY_ROOT_USERNAME",
        "IGGY_TEST_CLEANUP_DISABLED",
        "IGGY_TEST_VERBOSE",
    }
)
OTHER_PREFIXES: Final = ("IGGY_CONNECTORS_SINK_", "IGGY_CONNECTORS_SOURCE_")
LONG_INDEX: Final = re.compile(r"_[0-9]{2,}_")

ASSIGNMENT: Final = re.compile(r"(?:export\s+)?([A-Za-z_][A-Za-z0-9_.]*)\s*=\s*(.*)")
DOUBLE_QUOTED: Final = re.compile(r'"((?:[^"\\]|\\.)*)"\s*(?:#.*)?')
SINGLE_QUOTED: Final = re.compile(r"'([^']*)'\s*(?:#.*)?")
ESCAPE: Final = re.compile(r"\\(.)")
ESCAPED: Final = {"n": "\n", "t": "\t", "r": "\r"}


def apply_environment(
    environ: Mapping[str, str], settings: Settings, findings: Findings
) -> tuple[str, ...]:
    """Puts the variables' values into `settings`; returns the names that were used."""
    names = environment_names()
    used = []
    # Sorted, so that element 0 of an array is there before element 1 and warnings keep their order.
    for name in sorted(name for name in environ if name.startswith(PREFIX)):
        if not environ[name] or name in OTHER_NAMES or name.startswith(OTHER_PREFIXES):
            continue
        if name not in names:
            _note_unknown(name, findings)
            continue
        path, leaf = names[name]
        try:
            value = leaf.kind.from_text(environ[name])
        except ValueError as error:
            findings.problems.append(complaint(name, leaf.kind, environ[name], error))
            continue
        if _put(settings, path, value):
            used.append(name)
        else:
            findings.problems.append(f"{name} is set, but the elements before it do not exist")
    return tuple(used)


def displays_config(environ: Mapping[str, str]) -> bool:
    """Whether the effective configuration is logged at start."""
    return environ.get("IGGY_DISPLAY_CONFIG", "1").lower() in ("1", "true", "")


def _note_unknown(name: str, findings: Findings) -> None:
    findings.does_not_know("variable", name, nearest(name, environment_names()), quoted=False)
    if LONG_INDEX.search(name) and findings.unknown:
        findings.unknown[-1] += f" (indexes go from {ENV_INDEXES[0]} to {ENV_INDEXES[-1]})"


def _put(settings: Settings, path: Path, value: object) -> bool:
    """False when `path` leads to an array's element that leaves a gap.

    Elements are laid over those of the file. The default elements are only examples: the first
    variable of an array replaces them, so that no example port survives beside a user's node.
    """
    here: Any = settings
    for part, following in pairwise(path):
        if isinstance(part, str):
            here = here.setdefault(part, [] if isinstance(following, int) else {})
        elif part > len(here):
            return False
        else:
            if part == len(here):
                here.append({})
            here = here[part]
    here[path[-1]] = value
    return True


def parse_dotenv(text: str) -> tuple[dict[str, str], list[int]]:
    """The variables of a dotenv file, and the numbers of the lines that are no assignment.

    A line is NAME=value, optionally after `export`; blank lines and lines that begin with # are
    skipped. A value in single quotes is taken literally; in double quotes a backslash makes n, t
    and r special and everything else literal; without quotes a value ends at " #".
    """
    variables: dict[str, str] = {}
    bad_lines = []
    for number, line in enumerate(text.splitlines(), start=1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        match = ASSIGNMENT.fullmatch(line)
        value = None if match is None else _dotenv_value(match[2])
        if match is None or value is None:
            bad_lines.append(number)
        else:
            variables[match[1]] = value
    return variables, bad_lines


def _dotenv_value(text: str) -> str | None:
    if text.startswith('"'):
        match = DOUBLE_QUOTED.fullmatch(text)
        return match and ESCAPE.sub(lambda found: ESCAPED.get(found[1], found[1]), match[1])
    if text.startswith("'"):
        match = SINGLE_QUOTED.fullmatch(text)
        return match and match[1]
    return "" if text.startswith("#") else text.split(" #", 1)[0].rstrip()
