"""The broker's configuration: schema, sources, rules and rendering.

A Config is read once by the supervisor and never changes; workers get the same values as JSON. No
other room is used here. Read schema.py (every setting) and kinds.py (what a value may be), then
loading.py, which puts documents.py, environment.py and rules.py together.
"""

from borzoi.shards.config.documents import render_toml
from borzoi.shards.config.environment import displays_config
from borzoi.shards.config.errors import ConfigError
from borzoi.shards.config.loading import Loaded, check_file, load_config
from borzoi.shards.config.schema import Config, from_json, to_json

__all__ = [
    "Config",
    "ConfigError",
    "Loaded",
    "check_file",
    "displays_config",
    "from_json",
    "load_config",
    "render_toml",
    "to_json",
]
