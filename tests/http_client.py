"""An HTTP client for tests: one request, one answer, by the standard library alone."""

import http.client
import json
import ssl
from typing import Any, NamedTuple

from tests.broker import BrokerProcess

TIMEOUT_S = 60.0


class HttpAnswer(NamedTuple):
    """What came back."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class HttpClient:
    """Asks one broker; `token` goes with every request, `context` is for a door with TLS."""

    def __init__(
        self, broker: BrokerProcess, token: str = "", context: ssl.SSLContext | None = None
    ) -> None:
        self._address = broker.http_address
        self._context = context
        self.token = token

    def login(self, username: str = "iggy", password: str = "iggy") -> "HttpClient":
        """Log in, and keep the token."""
        body = {"username": username, "password": password}
        answer = self.ask("POST", "/users/login", body)
        assert answer.status == 200, answer
        self.token = answer.json["access_token"]["token"]
        return self

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        headers: dict[str, str] | None = None,
    ) -> HttpAnswer:
        """One request on a connection of its own; a body that is not bytes goes as JSON."""
        sent = dict(headers or {})
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
            sent.setdefault("Content-Type", "application/json")
        if self.token:
            sent.setdefault("Authorization", f"Bearer {self.token}")
        connection = self._connection()
        try:
            connection.request(method, path, body, sent)
            answer = connection.getresponse()
            return HttpAnswer(answer.status, dict(answer.getheaders()), answer.read())
        finally:
            connection.close()

    def _connection(self) -> http.client.HTTPConnection:
        if self._context is None:
            return http.client.HTTPConnection(self._address, timeout=TIMEOUT_S)
        # Certificates of tests are for this name.
        where = f"localhost:{self._address.rpartition(':')[2]}"
        return http.client.HTTPSConnection(where, timeout=TIMEOUT_S, context=self._context)
