"""Stores of slots: a shared directory, or a bucket of S3 and of what speaks its protocol.

A put is answered OK, EXISTS or UNKNOWN. UNKNOWN is everything that may have happened or may still
happen: a time-out, a lost answer, a 500. Nothing is repeated in here, because the lane machine
does that and knows why: the retries of the library are off. A reading that failed is
StoreUnreachable, and may be tried again. StoreRefused is final: no bucket, no right.

Errors have the key and never a credential in the text.
"""

import asyncio
import os
import re
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, Final, NamedTuple, Protocol, TypeVar

import obstore
from obstore import exceptions
from obstore.store import S3Store

from borzoi.cluster.operations import Listed, PutResult

OBJECT_SIZE_MAX: Final = 1024 * 1024 * 1024
LISTED_MAX: Final = 1_000_000
REQUEST_TIMEOUT: Final = timedelta(seconds=30)
CONNECT_TIMEOUT: Final = timedelta(seconds=5)
TEMPORARY: Final = ".tmp-"
ERROR_CODE: Final = re.compile("<Code>([A-Za-z0-9]+)</Code>")

T = TypeVar("T")


class StoreUnreachable(Exception):
    """The store did not answer, or failed; trying again may help."""


class StoreRefused(Exception):
    """The store answered, and the answer will be the same next time. Nothing was changed."""


class SlotStore(Protocol):
    """What a lane needs of a store: atomic put-if-absent, and readings that show it at once."""

    @property
    def name(self) -> str:
        """The place, as logs and errors show it."""

    async def put_if_absent(self, key: str, body: bytes) -> PutResult:
        """Store an object if there is none under this key."""

    async def put(self, key: str, body: bytes) -> PutResult:
        """Store an object under a name that one writer uses; never answered EXISTS."""

    async def get(self, key: str) -> bytes | None:
        """The bytes of an object, None if there is none."""

    async def list(self, prefix: str) -> list[Listed]:
        """Every object whose key begins with `prefix` and a slash, sorted by key."""

    async def delete(self, key: str) -> None:
        """Remove an object; fine if there is none."""


class BucketPlace(NamedTuple):
    """Where a bucket is. Credentials come from the AWS_* variables, or from the machine."""

    bucket: str
    prefix: str
    endpoint: str = ""
    region: str = ""


REFUSALS: Final = (
    exceptions.PermissionDeniedError,
    exceptions.UnauthenticatedError,
    exceptions.NotSupportedError,
    exceptions.InvalidPathError,
)
MISSING: Final = (FileNotFoundError, exceptions.NotFoundError)
TAKEN: Final = (exceptions.AlreadyExistsError, exceptions.PreconditionError)
"""409 and 412. A 409 may also be a collision with a put that failed: the machine reads back."""


class BucketSlots:
    """Slots below a prefix of a bucket."""

    def __init__(self, place: BucketPlace) -> None:
        """Connects to nothing yet. StoreRefused if the place makes no sense."""
        self._name = f"s3://{place.bucket}/{place.prefix}".rstrip("/")
        settings: dict[str, Any] = {"unsigned_payload": not place.endpoint.startswith("http://")}
        if place.endpoint:
            settings["endpoint"] = place.endpoint
        if place.region:
            settings["region"] = place.region
        try:
            self._bucket = S3Store(
                place.bucket,
                prefix=place.prefix or None,
                client_options={
                    "allow_http": place.endpoint.startswith("http://"),
                    "timeout": REQUEST_TIMEOUT,
                    "connect_timeout": CONNECT_TIMEOUT,
                },
                retry_config={"max_retries": 0},
                **settings,
            )
        except exceptions.BaseError as error:
            raise StoreRefused(f"{self._name}: {_in_short(error)}") from error

    @property
    def name(self) -> str:
        """The bucket and prefix."""
        return self._name

    async def put_if_absent(self, key: str, body: bytes) -> PutResult:
        """One request with `If-None-Match: *`."""
        return await self._put(key, body, "create")

    async def put(self, key: str, body: bytes) -> PutResult:
        """One request."""
        return await self._put(key, body, "overwrite")

    async def get(self, key: str) -> bytes | None:
        """One request; StoreUnreachable if the object is larger than any slot or pack may be."""
        try:
            result = await obstore.get_async(self._bucket, key)
            if result.meta["size"] > OBJECT_SIZE_MAX:
                raise StoreRefused(f"{self._name}/{key} has {result.meta['size']} bytes")
            return bytes(await result.bytes_async())
        except MISSING as error:
            if "NoSuchBucket" in str(error):
                raise self._refused(key, error) from error
            return None
        except exceptions.BaseError as error:
            raise self._failed(key, error) from error

    async def list(self, prefix: str) -> list[Listed]:
        """As many requests as there are pages."""
        found: list[Listed] = []
        try:
            async for page in obstore.list(self._bucket, prefix):
                found += [
                    Listed(one["path"], one["size"], one["last_modified"].timestamp())
                    for one in page
                ]
                if len(found) > LISTED_MAX:
                    raise StoreRefused(f"{self._name}/{prefix} has more than {LISTED_MAX} objects")
        except exceptions.BaseError as error:
            raise self._failed(prefix, error) from error
        return sorted(found)

    async def delete(self, key: str) -> None:
        """One request."""
        try:
            await obstore.delete_async(self._bucket, key)
        except MISSING:
            return
        except exceptions.BaseError as error:
            raise self._failed(key, error) from error

    async def _put(self, key: str, body: bytes, mode: Any) -> PutResult:
        try:
            await obstore.put_async(self._bucket, key, body, mode=mode, use_multipart=False)
        except TAKEN:
            # A plain put never collides for good: what some stores call so is no answer.
            return PutResult.EXISTS if mode == "create" else PutResult.UNKNOWN
        except (*REFUSALS, *MISSING) as error:
            raise self._refused(key, error) from error
        except exceptions.BaseError:
            return PutResult.UNKNOWN
        return PutResult.OK

    def _failed(self, key: str, error: Exception) -> Exception:
        if isinstance(error, REFUSALS):
            return self._refused(key, error)
        return StoreUnreachable(f"{self._name}/{key}: {_in_short(error)}")

    def _refused(self, key: str, error: Exception) -> StoreRefused:
        return StoreRefused(f"{self._name}/{key}: {_in_short(error)}")


class DirectorySlots:
    """Slots in a directory, on this machine or mounted from another one that all nodes share.

    An object is written to a temporary, synced, and gets its name by link(), which fails if the
    name is taken; then its directory is synced. What is OK survives a power cut of the file server.
    """

    def __init__(self, root: str) -> None:
        self._root = os.path.abspath(root)
        self._synced: set[str] = set()

    @property
    def name(self) -> str:
        """The path."""
        return self._root

    async def put_if_absent(self, key: str, body: bytes) -> PutResult:
        """Links a synced temporary to the name."""
        return await self._put_on_thread(key, body, os.link)

    async def put(self, key: str, body: bytes) -> PutResult:
        """Renames a synced temporary."""
        return await self._put_on_thread(key, body, os.replace)

    async def get(self, key: str) -> bytes | None:
        """Reads the file."""
        return await self._on_thread(key, _read)

    async def list(self, prefix: str) -> list[Listed]:
        """Walks the directory; temporaries are left out."""
        return list(await self._on_thread(prefix, self._walk))

    async def delete(self, key: str) -> None:
        """Unlinks the file."""
        await self._on_thread(key, _unlink)

    async def _put_on_thread(
        self, key: str, body: bytes, name_it: Callable[[str, str], None]
    ) -> PutResult:
        try:
            return await self._on_thread(key, lambda path: self._put(path, body, name_it))
        except StoreUnreachable:
            # A full disk, or a mount that is gone. Putting it again may help.
            return PutResult.UNKNOWN

    async def _on_thread(self, key: str, work: Callable[[str], T]) -> T:
        if key.startswith("/") or not set(key.split("/")).isdisjoint(("", ".", "..")):
            raise StoreRefused(f"{key!r} is no key")
        path = os.path.join(self._root, key)
        try:
            return await asyncio.to_thread(work, path)
        except (PermissionError, IsADirectoryError, NotADirectoryError) as error:
            raise StoreRefused(f"{path}: {error.strerror}") from error
        except OSError as error:
            raise StoreUnreachable(f"{path}: {error.strerror}") from error

    def _put(self, path: str, body: bytes, name_it: Callable[[str, str], None]) -> PutResult:
        parent = os.path.dirname(path)
        temporary = f"{parent}/{TEMPORARY}{os.urandom(8).hex()}"
        self._make(parent)
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        try:
            with os.fdopen(fd, "wb") as file:
                file.write(body)
                file.flush()
                os.fsync(file.fileno())
            name_it(temporary, path)
            result = PutResult.OK
        except FileExistsError:
            result = PutResult.EXISTS
        except PermissionError:
            raise
        except OSError:
            return PutResult.UNKNOWN
        finally:
            _unlink(temporary)
        try:
            # EXISTS too: it may be this very put, whose name was not synced the first time.
            _sync(parent)
        except OSError:
            return PutResult.UNKNOWN
        return result

    def _make(self, parent: str) -> None:
        """Make the directories above, and their names durable, once for each process."""
        if parent in self._synced:
            return
        os.makedirs(parent, exist_ok=True)
        at = parent
        while len(at) >= len(self._root):
            at = os.path.dirname(at)
            _sync(at)
        self._synced.add(parent)

    def _walk(self, top: str) -> Sequence[Listed]:
        found = []
        for directory, _, names in os.walk(top, onerror=_unless_missing):
            for name in names:
                path = os.path.join(directory, name)
                if name.startswith(TEMPORARY):
                    continue
                try:
                    status = os.stat(path, follow_symlinks=False)
                except FileNotFoundError:
                    continue  # removed since its directory was read
                key = os.path.relpath(path, self._root)
                found.append(Listed(key, status.st_size, status.st_mtime))
                if len(found) > LISTED_MAX:
                    raise StoreRefused(f"{top} has more than {LISTED_MAX} objects")
        return sorted(found)


def _read(path: str) -> bytes | None:
    try:
        with open(path, "rb") as file:
            if os.fstat(file.fileno()).st_size > OBJECT_SIZE_MAX:
                raise StoreRefused(f"{path} has more than {OBJECT_SIZE_MAX} bytes")
            return file.read()
    except FileNotFoundError:
        return None


def _unlink(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        return


def _unless_missing(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise error


def _sync(directory: str) -> None:
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _in_short(error: Exception) -> str:
    """What happened, without the answer's body, of which only the error's name is fit for a log."""
    text = str(error)
    what = text.splitlines()[0].partition(": <?xml")[0]
    code = ERROR_CODE.search(text)
    return f"{what} ({code[1]})" if code else what
