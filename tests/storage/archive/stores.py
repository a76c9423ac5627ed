"""Stores for tests: one in memory that fails, dies or lies on demand."""

from collections.abc import Iterable, Iterator

from borzoi.storage.archive.store import ObjectMissing, Pieces, StoredObject, StoreFailed


class MemoryStore:
    """Objects in a dict. `fail_put` fails the nth put from then on, before or after it is done."""

    name = "memory"

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.puts: list[str] = []
        self.spoil: str | None = None
        self._fail_at: int | None = None
        self._done_first = False

    def fail_put(self, nth: int, *, done_first: bool = False) -> None:
        self.puts.clear()
        self._fail_at, self._done_first = nth, done_first

    def put(self, key: str, pieces: Iterable[bytes], size: int) -> None:
        self.puts.append(key)
        fails = len(self.puts) - 1 == self._fail_at
        if fails and not self._done_first:
            raise StoreFailed("no")
        data = b"".join(pieces)
        assert len(data) == size
        if self.spoil is not None and key.endswith(self.spoil):
            data = data[:-1] + bytes([data[-1] ^ 1])
        self.objects[key] = data
        if fails:
            raise StoreFailed("who knows")

    def read(self, key: str) -> Pieces:
        if key not in self.objects:
            raise ObjectMissing(key)
        return self._pieces(self.objects[key])

    def list(self, prefix: str) -> Iterator[StoredObject]:
        for key, data in sorted(self.objects.items()):
            if not prefix or key.startswith(f"{prefix}/"):
                yield StoredObject(key, len(data), 0.0)

    def delete(self, key: str) -> None:
        self.objects.pop(key, None)

    def _pieces(self, data: bytes) -> Pieces:
        yield from (data[at : at + 100] for at in range(0, len(data), 100))
