"""The broker's configuration: schema, sources, rules and rendering.

Everything that other parts need is named here. A Config is read once by the supervisor and never
changes; workers get the same values as JSON.
"""

from borzoi.shards.config.environment import displays_config
from borzoi.shards.config.errors import ConfigError
from borzoi.shards.config.loading import Loaded, check_file, load_config
from borzoi.shards.config.memory import granted_memory, memory_budget_per_shard
from borzoi.shards.config.rendering import render_toml
from borzoi.shards.config.schema import Config, from_json, to_json

__all__ = [
    "Config",
    "ConfigError",
    "Loaded",
    "check_file",
    "displays_config",
    "from_json",
    "granted_memory",
    "load_config",
    "memory_budget_per_shard",
    "render_toml",
    "to_json",
]
