"""Where settings come from: a file, the environment, the rules between them, and their rendering.

A Config is read once by the supervisor and never changes; workers get the same values as JSON.
Which settings there are stands in the room `settings`. Read loading.py, which puts documents.py,
environment.py and rules.py together.
"""

from borzoi.shards.config.documents import render_toml
from borzoi.shards.config.environment import displays_config
from borzoi.shards.config.loading import Loaded, check_file, load_config
from borzoi.shards.settings.errors import ConfigError
from borzoi.shards.settings.schema import Config, from_json, to_json

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
