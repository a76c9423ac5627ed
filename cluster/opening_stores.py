"""From the text that names a store to the store: a directory, or s3://BUCKET/PREFIX."""

from urllib.parse import urlsplit

from borzoi.cluster.stores import BucketPlace, BucketSlots, DirectorySlots, SlotStore, StoreRefused


def open_store(url: str, endpoint: str = "", region: str = "") -> SlotStore:
    """The store, not contacted yet. StoreRefused if the text names none."""
    parts = urlsplit(url)
    if parts.scheme == "s3" and parts.netloc:
        return BucketSlots(BucketPlace(parts.netloc, parts.path.strip("/"), endpoint, region))
    if parts.scheme == "file" and not parts.netloc and parts.path:
        return DirectorySlots(parts.path)
    if parts.scheme or not url:
        raise StoreRefused(f"{url!r} is neither a directory nor s3://BUCKET/PREFIX")
    return DirectorySlots(url)
