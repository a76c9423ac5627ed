"""The archive that the configuration names, opened; and the secret that opens it.

Secrets come from the configuration (file or environment), from a credentials file in the format
of the AWS tools, or from the AWS_* variables. They are in no log line and no error.
"""

import configparser
import os
from typing import Final

from borzoi.shards.directory.archive_place import archive_directory
from borzoi.shards.settings.schema import ArchiverS3, ArchiverSettings, Config
from borzoi.storage.archive.store import ArchiveStore, DirectoryStore, StoreFailed
from borzoi.storage.files import Files

PROFILE_VARIABLE: Final = "AWS_PROFILE"
CREDENTIALS_SIZE_MAX: Final = 1 << 16


def open_store(config: Config, files: Files) -> ArchiveStore:
    """Returns the archive of this configuration, without contacting it. May block: for a thread."""
    archiver: ArchiverSettings = config.data_maintenance.archiver
    if archiver.kind == "s3":
        return _open_bucket(archiver.s3)
    return DirectoryStore(archive_directory(config), files)


def _open_bucket(s3: ArchiverS3) -> ArchiveStore:
    # Imported here: it brings an HTTP client along, which only this archive needs.
    from borzoi.storage.archive.s3 import BucketStore, Credentials

    credentials = None
    if s3.key_id:
        credentials = Credentials(s3.key_id, s3.key_secret)
    elif s3.credentials_file:
        credentials = Credentials(*read_credentials(s3.credentials_file))
    return BucketStore(s3.bucket, s3.prefix.strip("/"), s3.endpoint, s3.region, credentials)


def read_credentials(path: str) -> tuple[str, str, str]:
    """Key id, secret and session token (or none) of the profile in AWS_PROFILE, or `default`."""
    profile = os.environ.get(PROFILE_VARIABLE) or "default"
    parser = configparser.ConfigParser(interpolation=None)
    try:
        with open(path, encoding="utf-8") as file:
            parser.read_string(file.read(CREDENTIALS_SIZE_MAX))
        section = parser[profile]
        return (
            section["aws_access_key_id"],
            section["aws_secret_access_key"],
            section.get("aws_session_token", ""),
        )
    except KeyError as error:
        raise StoreFailed(f"{path}: profile {profile!r} has no {error}") from error
    except (OSError, UnicodeDecodeError) as error:
        raise StoreFailed(f"{path}: {type(error).__name__}") from error
    except configparser.Error as error:
        # Its text would show the line, and the line may be the secret.
        raise StoreFailed(f"{path} is no credentials file: {type(error).__name__}") from None
