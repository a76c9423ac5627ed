"""A proxy before an S3 server that breaks one promise: what check-store has to find."""

import http.client
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from typing import ClassVar
from urllib.parse import urlsplit

CONDITION = "If-None-Match"
SKIPPED = frozenset({"connection", "transfer-encoding", "content-length", "host"})


class Honest(BaseHTTPRequestHandler):
    """Passes everything on, one put after the other.

    The server behind it looks for a key and stores it in two steps: two racing puts may both win.
    """

    protocol_version = "HTTP/1.1"
    upstream: ClassVar[str] = ""
    putting: ClassVar[Lock]

    def do_PUT(self) -> None:
        self._pass(self._body())

    def do_GET(self) -> None:
        self._pass(self._body())

    def do_HEAD(self) -> None:
        self._pass(self._body())

    def do_DELETE(self) -> None:
        self._pass(self._body())

    def do_POST(self) -> None:
        self._pass(self._body())

    def _body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def _pass(self, body: bytes) -> None:
        status, headers, answer = self._ask(self.command, body)
        self.send_response(status)
        for name, value in headers:
            if name.lower() not in SKIPPED:
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer)

    def _ask(self, method: str, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        with self.putting if method == "PUT" else nullcontext():
            return self._answer(method, body)

    def _answer(self, method: str, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        place = urlsplit(self.upstream)
        connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=30)
        try:
            headers = {
                name: value for name, value in self.headers.items() if name.lower() not in SKIPPED
            }
            connection.request(method, self.path, body, headers)
            answer = connection.getresponse()
            return answer.status, answer.getheaders(), answer.read()
        finally:
            connection.close()

    def log_message(self, *_: object) -> None:
        """Nothing."""


class IgnoresTheCondition(Honest):
    """As `rclone serve s3` does."""

    def do_PUT(self) -> None:
        del self.headers[CONDITION]
        self._pass(self._body())


class ChecksBeforeItPuts(Honest):
    """Two steps where one is promised: right for one writer, wrong for two."""

    def do_PUT(self) -> None:
        body = self._body()
        if CONDITION in self.headers:
            del self.headers[CONDITION]
            if self._ask("HEAD", b"")[0] == 200:
                self.send_error(412)
                return
            time.sleep(0.01)
        self._pass(body)


class AgreesAndForgets(Honest):
    """Answers 200 to a put that it does not carry out."""

    def do_PUT(self) -> None:
        body = self._body()
        if CONDITION in self.headers and self._ask("HEAD", b"")[0] == 200:
            self.send_response(200)
            self.send_header("ETag", '"x"')
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        self._pass(body)


@contextmanager
def proxy(kind: type[Honest], upstream: str) -> Iterator[str]:
    """A running proxy; its address."""
    handler = type(kind.__name__, (kind,), {"upstream": upstream, "putting": Lock()})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join(30)
        server.server_close()
