"""The grammar of `system.sharding.cpu_allocation`, without looking at any machine.

    value := "all" | N | "START..END" | "numa:auto" | "numa:" param (";" param)*
    param := "nodes=" int ("," int)* | "cores=" int | "no_ht=" ("true" | "false")

Pure: text to a value. Which CPUs come out of it is decided in borzoi.shards.host.cpus.
"""

from __future__ import annotations

from dataclasses import dataclass

from borzoi.shards.settings.errors import ConfigError

KEY = "system.sharding.cpu_allocation"
NEEDS = 'needs "all", a count, "START..END", "numa:auto" or "numa:nodes=0,1;cores=4;no_ht=true"'

DIGITS_MAX = 9
"""Of a count or the number of a CPU; a longer text is none."""


@dataclass(frozen=True)
class AllCpus:
    """One shard per CPU this process may use."""


@dataclass(frozen=True)
class CpuCount:
    """So many shards, on the first CPUs this process may use."""

    count: int


@dataclass(frozen=True)
class CpuRange:
    """CPUs `first` to `end` - 1."""

    first: int
    end: int


@dataclass(frozen=True)
class NumaCpus:
    """CPUs by memory node. `nodes` empty: all of them; `cores` 0: every core of a node."""

    nodes: tuple[int, ...] = ()
    cores: int = 0
    avoid_hyper_threads: bool = True
    automatic: bool = False


CpuAllocation = AllCpus | CpuCount | CpuRange | NumaCpus


def parse_cpu_allocation(value: str | int) -> CpuAllocation:
    """What `value` asks for. ConfigError when it is none of the forms."""
    text = str(value).strip()
    if text == "all":
        return AllCpus()
    if _is_number(text):
        if int(text) == 0:
            raise ConfigError(f"{KEY} is 0: needs at least one shard")
        return CpuCount(int(text))
    first, dots, end = text.partition("..")
    if dots and _is_number(first) and _is_number(end):
        if int(first) >= int(end):
            raise ConfigError(f"{KEY} is {text!r}: the range's start must lie below its end")
        return CpuRange(int(first), int(end))
    if text.startswith("numa:"):
        return _parse_numa(text)
    raise ConfigError(f"{KEY} is {text!r}: {NEEDS}")


def _parse_numa(text: str) -> NumaCpus:
    parameters = text.removeprefix("numa:")
    if parameters == "auto":
        return NumaCpus(automatic=True)
    nodes: tuple[int, ...] = ()
    cores = 0
    avoid_hyper_threads = True
    for parameter in parameters.split(";"):
        name, _, argument = (part.strip() for part in parameter.partition("="))
        if name == "nodes" and all(_is_number(node.strip()) for node in argument.split(",")):
            nodes = tuple(dict.fromkeys(int(node) for node in argument.split(",")))
        elif name == "cores" and _is_number(argument):
            cores = int(argument)
        elif name == "no_ht" and argument in ("true", "false"):
            avoid_hyper_threads = argument == "true"
        else:
            raise ConfigError(f"{KEY} is {text!r}, {parameter!r} is not understood: {NEEDS}")
    return NumaCpus(nodes, cores, avoid_hyper_threads)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= DIGITS_MAX
