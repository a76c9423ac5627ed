"""Where the configuration comes from: defaults, TOML file, environment; later wins.

The only module of this package that reads files. Always: what load_config
returns has passed every rule of rules.py; what it complains about without stopping is in
`warnings`, one line each.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec

from borzoi.shards.config.documents import Findings, build_config, read_document
from borzoi.shards.config.environment import apply_environment, parse_dotenv
from borzoi.shards.config.not_yet import without_effect
from borzoi.shards.config.rules import broken_rules
from borzoi.shards.settings.errors import ConfigError
from borzoi.shards.settings.schema import Config

CONFIG_PATH: Final = "IGGY_CONFIG_PATH"
ENV_PATH: Final = "IGGY_ENV_PATH"
DEFAULT_CONFIG_PATH: Final = "core/server/config.toml"
DEFAULT_ENV_NAME: Final = ".env"

# A configuration is some kilobytes. A path that leads to anything else is an error, not a stall.
FILE_SIZE_MAX: Final = 1 << 20


@dataclass(frozen=True)
class Loaded:
    """`environ` includes the dotenv file: the root account and the log level are read from it."""

    config: Config
    warnings: tuple[str, ...]
    sources: tuple[str, ...]
    environ: Mapping[str, str] = field(repr=False)


def load_config(
    environ: Mapping[str, str],
    cwd: Path,
    *,
    available_cpus: Sequence[int] | None = None,
    strict: bool = False,
) -> Loaded:
    """The effective configuration. ConfigError, with all problems, when it cannot be used.

    An unknown name is a problem where it nearly names a protection, and with `strict` everywhere.
    """
    warnings: list[str] = []
    sources = ["defaults"]
    environ = _with_dotenv(environ, cwd, warnings, sources)
    findings = Findings()
    document = _read_config_file(environ, cwd, sources)
    settings = read_document(document, findings)
    used = apply_environment(environ, settings, findings)
    if used:
        sources.append(f"environment ({', '.join(used)})")
    config = build_config(settings, findings)
    if config is None or findings.problems:
        raise ConfigError(findings.problems)
    unknown = [text.replace(" is ignored,", ":") for text in findings.unknown if strict]
    if findings.unprotected or unknown:
        raise ConfigError(findings.unprotected + unknown)
    warnings += findings.unknown
    config = _settle_durability(config, warnings)
    cpus = sorted(os.sched_getaffinity(0)) if available_cpus is None else available_cpus
    if broken := broken_rules(config, cpus):
        raise ConfigError(broken)
    warnings += without_effect(config)
    return Loaded(config, tuple(warnings), tuple(sources), environ)


def check_file(path: Path, *, available_cpus: Sequence[int] | None = None) -> list[str]:
    """Everything wrong with a file taken alone, unknown keys included. Empty: it is fine."""
    findings = Findings()
    try:
        document = _read_toml(path)
    except ConfigError as error:
        return list(error.problems)
    config = build_config(read_document(document, findings), findings)
    found = findings.problems + findings.unprotected + findings.unknown
    if config is not None:
        cpus = sorted(os.sched_getaffinity(0)) if available_cpus is None else available_cpus
        found += broken_rules(config, cpus)
    return found


def _settle_durability(config: Config, warnings: list[str]) -> Config:
    """One setting decides when messages are safe; no reader has to know of the older one."""
    partition = config.system.partition
    if not partition.enforce_fsync or partition.durability == "fsync":
        return config
    if partition.durability == "buffered":
        warnings.append(
            "system.partition.enforce_fsync = true wins over"
            " system.partition.durability = 'buffered'"
        )
    partition = msgspec.structs.replace(partition, durability="fsync")
    return msgspec.structs.replace(
        config, system=msgspec.structs.replace(config.system, partition=partition)
    )


def _with_dotenv(
    environ: Mapping[str, str], cwd: Path, warnings: list[str], sources: list[str]
) -> Mapping[str, str]:
    """The environment over the dotenv file's variables: what is really set is never overwritten."""
    wanted = environ.get(ENV_PATH)
    path = _find(wanted or DEFAULT_ENV_NAME, cwd)
    if path is None:
        if wanted:
            raise _missing(ENV_PATH, wanted, cwd)
        return environ
    variables, bad_lines = parse_dotenv(_read_text(path))
    warnings += [f"{path}:{number} is no assignment and is ignored" for number in bad_lines]
    sources.append(f"variables of {path}")
    return {**variables, **environ}


def _read_config_file(
    environ: Mapping[str, str], cwd: Path, sources: list[str]
) -> dict[str, object]:
    wanted = environ.get(CONFIG_PATH)
    path = _find(wanted or DEFAULT_CONFIG_PATH, cwd)
    if path is None:
        if wanted:
            raise _missing(CONFIG_PATH, wanted, cwd)
        return {}
    sources.append(f"file {path}")
    return _read_toml(path)


def _missing(variable: str, wanted: str, cwd: Path) -> ConfigError:
    """A file that is named may hold a protection: without it the broker would start bare."""
    where = "" if Path(wanted).is_absolute() else f", neither in {cwd} nor above it"
    what = "is no file" if (cwd / wanted).exists() else f"does not exist{where}"
    return ConfigError(f"{variable} names {wanted!r}, which {what}")


def _find(name: str, cwd: Path) -> Path | None:
    """A relative name is looked for in the working directory, then in each of its parents."""
    for directory in (cwd, *cwd.parents):
        path = directory / name
        if path.is_file():
            return path
    return None


def _read_toml(path: Path) -> dict[str, object]:
    try:
        return tomllib.loads(_read_text(path))
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path} is not valid TOML: {error}") from error


def _read_text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(FILE_SIZE_MAX + 1)
        if len(data) > FILE_SIZE_MAX:
            raise ConfigError(f"{path} is larger than {FILE_SIZE_MAX} bytes: needs a settings file")
        return data.decode()
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8 text: {error.reason}") from error
