"""An S3 server of our own on loopback: nothing leaves this machine, nothing stays."""

import logging
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from moto.server import ThreadedMotoServer

BUCKET = "backups"
KEY_ID = "AKIAOFTHETESTS"
KEY_SECRET = "a-secret-that-must-not-show"


class S3Server(NamedTuple):
    url: str

    def settings(self, prefix: str) -> dict[str, str]:
        """What a broker needs to archive here."""
        key = "IGGY_DATA_MAINTENANCE_ARCHIVER"
        return {
            f"{key}_KIND": "s3",
            f"{key}_S3_BUCKET": BUCKET,
            f"{key}_S3_PREFIX": prefix,
            f"{key}_S3_ENDPOINT": self.url,
            f"{key}_S3_REGION": "us-east-1",
            f"{key}_S3_KEY_ID": KEY_ID,
            f"{key}_S3_KEY_SECRET": KEY_SECRET,
        }


@contextmanager
def s3_server() -> Iterator[S3Server]:
    """A server with one bucket, on a free port."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    url = f"http://{host}:{port}"
    try:
        request = urllib.request.Request(f"{url}/{BUCKET}", method="PUT")
        with urllib.request.urlopen(request, timeout=30):
            pass
        yield S3Server(url)
    finally:
        server.stop()
