"""An archive in a bucket of Amazon S3, or of anything that speaks its protocol (MinIO, Ceph).

Large objects go up in parts, several at once, and appear when the last part has arrived. Parts of
an upload that was killed stay invisible, and a lifecycle rule of the bucket should remove them.
Reading goes range by range, so that no single answer has to last long.
"""

import re
from collections.abc import Iterable, Iterator
from datetime import timedelta
from typing import Any, Final

import msgspec
import obstore
from obstore import exceptions
from obstore.store import S3Store as Bucket

from borzoi.storage.archive.store import (
    PIECE_SIZE,
    ObjectMissing,
    Pieces,
    StoredObject,
    StoreFailed,
)

PARTS_AT_ONCE: Final = 3
"""Parts on their way at the same time: each is a piece in memory."""

MISSING: Final = (FileNotFoundError, exceptions.NotFoundError)
FAILURES: Final = (*MISSING, exceptions.BaseError)
ERROR_CODE: Final = re.compile("<Code>([A-Za-z0-9]+)</Code>")
REQUEST_TIMEOUT: Final = timedelta(seconds=60)
RETRY_TIMEOUT: Final = timedelta(seconds=20)
RETRIES_MAX: Final = 3


class Credentials(msgspec.Struct, frozen=True):
    """The credentials for the bucket. Not shown by anything that prints it."""

    key_id: str
    key_secret: str
    session_token: str = ""

    def __repr__(self) -> str:
        return "Credentials(******)"


class BucketStore:
    """Objects below a prefix of a bucket."""

    def __init__(
        self,
        bucket: str,
        prefix: str,
        endpoint: str,
        region: str,
        credentials: Credentials | None,
    ) -> None:
        """Without credentials: those of the AWS_* variables, or of the machine."""
        settings: dict[str, Any] = {}
        if endpoint:
            settings["endpoint"] = endpoint
        if region:
            settings["region"] = region
        if credentials is not None:
            settings["access_key_id"] = credentials.key_id
            settings["secret_access_key"] = credentials.key_secret
            if credentials.session_token:
                settings["session_token"] = credentials.session_token
        self._name = f"s3://{bucket}/{prefix}".rstrip("/")
        try:
            self._bucket = Bucket(
                bucket,
                prefix=prefix or None,
                client_options={
                    "allow_http": endpoint.startswith("http://"),
                    "timeout": REQUEST_TIMEOUT,
                },
                retry_config={"max_retries": RETRIES_MAX, "retry_timeout": RETRY_TIMEOUT},
                **settings,
            )
        except FAILURES as error:
            raise StoreFailed(f"{self._name}: {error}") from error

    @property
    def name(self) -> str:
        """The bucket and prefix, as logs and errors show them."""
        return self._name

    def put(self, key: str, pieces: Iterable[bytes], size: int) -> None:
        """Stores an object; a large one in parts, which count only when all have arrived."""
        try:
            if size <= PIECE_SIZE:
                obstore.put(self._bucket, key, b"".join(pieces), use_multipart=False)
            else:
                obstore.put(
                    self._bucket,
                    key,
                    pieces,
                    use_multipart=True,
                    chunk_size=PIECE_SIZE,
                    max_concurrency=PARTS_AT_ONCE,
                )
        except FAILURES as error:
            raise self._failed(key, error) from error

    def read(self, key: str) -> Pieces:
        """Returns the bytes of an object in pieces; raises ObjectMissing if there is none."""
        try:
            size = obstore.head(self._bucket, key)["size"]
        except MISSING as error:
            raise ObjectMissing(f"{self._name}/{key} is not there") from error
        except FAILURES as error:
            raise self._failed(key, error) from error
        return self._pieces(key, size)

    def list(self, prefix: str) -> Iterator[StoredObject]:
        """Returns every object below a prefix."""
        try:
            for batch in obstore.list(self._bucket, prefix or None):
                for found in batch:
                    yield StoredObject(
                        found["path"], found["size"], found["last_modified"].timestamp()
                    )
        except FAILURES as error:
            raise self._failed(prefix, error) from error

    def delete(self, key: str) -> None:
        """Removes an object; fine if there is none."""
        try:
            obstore.delete(self._bucket, key)
        except MISSING:
            return
        except FAILURES as error:
            raise self._failed(key, error) from error

    def _pieces(self, key: str, size: int) -> Pieces:
        for start in range(0, size, PIECE_SIZE):
            length = min(PIECE_SIZE, size - start)
            try:
                piece = bytes(obstore.get_range(self._bucket, key, start=start, length=length))
            except FAILURES as error:
                raise self._failed(key, error) from error
            yield piece

    def _failed(self, key: str, error: Exception) -> StoreFailed:
        return StoreFailed(f"{self._name}/{key}: {_in_short(str(error))}")


def _in_short(text: str) -> str:
    """What happened, without the answer's body, of which only the error's name is fit for a log."""
    what = text.splitlines()[0].partition(": <?xml")[0]
    code = ERROR_CODE.search(text)
    return f"{what} ({code[1]})" if code else what
