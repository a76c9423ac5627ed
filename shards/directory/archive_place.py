"""Where the archive on disk lies, and whether it would share the fate of the data."""

import os

from borzoi.shards.settings.schema import Config


def archive_directory(config: Config) -> str:
    """Where the archive on disk lies: below the data directory, unless its path is absolute."""
    return os.path.join(os.path.abspath(config.system.path), config.system.backup.path)


def lies_within_data(config: Config) -> bool:
    """Whether whatever destroys the data would destroy the archive with it."""
    if config.data_maintenance.archiver.kind != "disk":
        return False
    data = os.path.realpath(config.system.path)
    return os.path.commonpath([data, os.path.realpath(archive_directory(config))]) == data
