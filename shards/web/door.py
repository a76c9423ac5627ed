"""The HTTP door of a shard: its listening socket, and the way of a request to its answer.

    CORS preflight? ── token ── route ── body ── call (commands.py, messages.py, ...) ── answer

Every shard opens it on one port that they share. A request needs no session, so any shard answers
any of them. What can go wrong on the way is an exception, and becomes an answer in one place.

Always: without a valid token nothing is said but 401, not even whether a path exists. A fault of
ours is answered with 500 and logged; a broken invariant ends the worker, as on other doors.
"""

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable, Mapping
from inspect import iscoroutine
from typing import Any, Final, NamedTuple, Protocol

import msgspec
from aiohttp import web

from borzoi.protocol.errors import BrokerError
from borzoi.quantities import seconds
from borzoi.shards.admission.places import ConnectionPlaces
from borzoi.shards.handlers.services import Services
from borzoi.shards.identity.origins import host_of, origin_of
from borzoi.shards.listening.sockets import BACKLOG, bound_address, open_socket
from borzoi.shards.partitions.durability import Durability
from borzoi.shards.rings.asking import Abandoned
from borzoi.shards.settings.addresses import is_loopback
from borzoi.shards.settings.schema import Http, Limits, TcpSocket
from borzoi.shards.tls.certificate import Certificate
from borzoi.shards.tls.context import server_context
from borzoi.shards.web.cors import CorsRules
from borzoi.shards.web.reading import read_body, room_for_body
from borzoi.shards.web_connections.connections import WebConnection, WebServer
from borzoi.shards.web_connections.exchange import Exchange, Raw, RawBody
from borzoi.shards.web_forms.failures import JSON, Failure, failure_of, plain, without_token
from borzoi.shards.web_forms.limits import BODIES_LARGEST, BODIES_SIZE_MIN
from borzoi.shards.web_forms.paths import read_query, segments_of
from borzoi.shards.web_messages.arrivals import Arrivals
from borzoi.shards.web_messages.streaming import Streaming
from borzoi.shards.web_routes.routes import Offers, all_routes
from borzoi.shards.web_routes.routing import Endpoint, Router
from borzoi.shards.web_tokens.caller import HttpCaller
from borzoi.shards.web_tokens.keys import open_keys
from borzoi.shards.web_tokens.logins import HttpLogins
from borzoi.shards.web_tokens.revocations import Revocations
from borzoi.shards.web_tokens.tokens import InvalidToken, TokenClaims, Tokens
from borzoi.shares import Shares, address_taker, user_taker
from borzoi.storage.layout import DataLayout

LOG: Final = logging.getLogger(__name__)

BEARER: Final = "Bearer "
SERVER: Final = "borzoi"
STOP_TIME_MAX_S: Final = 1.0
HANDSHAKE_TIME_MAX_S: Final = 10.0
PURGE_INTERVAL_S: Final = 300.0


class Counts(Protocol):
    """Since the start of this worker."""

    requests: int
    refused: int


class WebSettings(NamedTuple):
    """What the configuration says about this door."""

    http: Http
    limits: Limits
    layout: DataLayout


class HttpApi:
    """Accepts connections and answers requests."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        services: Services,
        settings: WebSettings,
        revocations: Revocations,
        metrics_text: Callable[[], Awaitable[bytes]],
        counts: Counts,
    ) -> None:
        self._loop = loop
        self._services = services
        self._http, limits, self._layout = settings
        self._limits = limits
        self.revocations = revocations
        self._metrics_text = metrics_text
        self._counts = counts
        self._cors = CorsRules(self._http.cors)
        size_max = self._http.max_request_size
        total = max(BODIES_SIZE_MIN, BODIES_LARGEST * size_max)
        self.bodies = Shares("bytes of HTTP bodies", total, limits.share_weight)
        self._body_time_s = seconds(limits.frame_timeout)
        places = ConnectionPlaces[WebConnection](
            max(1, limits.connections_max // 2),
            limits.connections_per_address_max,
            limits.connections_before_login_max,
            limits.share_weight,
        )
        self.connections = WebServer(loop, self._handle, places, self._refused)
        self._server: asyncio.Server | None = None
        self._context: ssl.SSLContext | None = None
        self._closing = asyncio.Event()
        self._arrivals = Arrivals(
            loop,
            services.describer.published_at,
            is_buffered=services.durability is Durability.BUFFERED,
        )
        self._purged_at = loop.time()
        self._decoders: dict[Any, msgspec.json.Decoder[Any]] = {}

    def show(self, certificates: Mapping[str, Certificate]) -> None:
        """Encrypt this door if it has a certificate; connections keep what they have."""
        shown = certificates.get("http")
        self._context = None if shown is None else server_context(shown)
        if self._context is not None:
            # The context of the listener stays; each handshake takes the one of its time.
            self._context.sni_callback = self._take_context

    def _take_context(self, peer: ssl.SSLObject, _name: str, _context: ssl.SSLContext) -> None:
        if self._context is not None:
            peer.context = self._context

    async def listen(self, address: str) -> str:
        """Open the socket; the address with the real port. ConfigError if a key cannot be used."""
        context = self._context
        keys = open_keys(self._http.jwt, self._layout)
        self.revocations.load()
        self._tokens = Tokens(self._http.jwt, keys, self.revocations.covers)
        logins = HttpLogins(self._services, self._tokens, self.revocations)
        logins.refuses_passwords = self._refuses_passwords(address, context)
        metrics = self._http.metrics
        offers = Offers(
            logins,
            self._metrics_text,
            metrics.endpoint if metrics.enabled else None,
            self._closing,
            Streaming(self._arrivals, self._tokens, self._closing),
        )
        self._router = Router(all_routes(offers))
        listening = open_socket(address, TcpSocket())
        self._server = await self._loop.create_server(
            self.connections,
            sock=listening,
            backlog=BACKLOG,
            ssl=context,
            ssl_handshake_timeout=None if context is None else HANDSHAKE_TIME_MAX_S,
        )
        return bound_address(listening)

    async def close(self) -> None:
        """Stop accepting, let requests in work end, drop everything else."""
        self._closing.set()
        self._arrivals.wake_all()
        if self._server is None:
            return
        self._server.close()
        self.connections.pre_shutdown()
        await self.connections.shutdown(STOP_TIME_MAX_S)

    def check_deadlines(self) -> None:
        """Once a second."""
        self.connections.check_deadlines()
        if self._loop.time() - self._purged_at > PURGE_INTERVAL_S:
            self._purged_at = self._loop.time()
            self.revocations.purge()

    def _refuses_passwords(self, address: str, context: ssl.SSLContext | None) -> bool:
        if context is not None or is_loopback(address):
            return False
        if self._limits.plain_login == "refuse":
            return True
        LOG.warning(
            'passwords come to http://%s in clear: set http.tls, or limits.plain_login = "refuse"',
            address,
        )
        return False

    def _refused(self) -> None:
        self._counts.refused += 1

    # The way of a request.

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        connection = request.protocol
        assert isinstance(connection, WebConnection)
        self._counts.requests += 1
        connection.begins()
        headers = {"Server": SERVER, **self._cors.headers(request.headers)}
        try:
            return await self._answer(request, connection, headers)
        except Failure as failure:
            return _response(failure, headers)
        except BrokerError as error:
            return _response(failure_of(error), headers)
        except Abandoned:
            return _response(plain(503, "the outcome is not known: a shard has died"), headers)
        except (ConnectionError, asyncio.CancelledError):
            raise
        except AssertionError as error:
            self._services.tasks.start(_raise(error))
            raise
        except Exception:
            LOG.exception("%s %s failed through a fault of ours", request.method, request.rel_url)
            return _response(plain(500, "a fault of the broker, which its log describes"), headers)
        finally:
            connection.ends()

    async def _answer(
        self, request: web.BaseRequest, connection: WebConnection, headers: dict[str, str]
    ) -> web.StreamResponse:
        if request.method == "OPTIONS" and self._cors.enabled:
            return web.Response(headers=headers | self._cors.preflight(request.headers))
        path = request.rel_url.raw_path
        claims = self._claims(request, is_needed=not self._router.is_public(path))
        connection.user_id = None if claims is None else claims.user_id
        route, names = self._router.find(request.method, segments_of(path))
        query = None
        if route.query is not None:
            query = read_query(request.rel_url.raw_query_string, route.query)
        caller = HttpCaller(self._services.metadata, connection.address, claims)
        size_max = self._http.max_request_size
        with room_for_body(request, size_max, self.bodies, _taker(caller)):
            body = None
            if route.body is not None:
                data = await read_body(request, size_max, self._body_time_s)
                body = self._decoded(request, route, data)
            exchange = Exchange(request, self._services, caller, names, query, body, headers)
            outcome = route.call(exchange)
            if iscoroutine(outcome):
                outcome = await outcome
        return _answered(route, outcome, headers)

    def _claims(self, request: web.BaseRequest, *, is_needed: bool) -> TokenClaims | None:
        """What the token of a request says. Where none is needed, a bad one counts as none."""
        header = request.headers.get("Authorization", "")
        try:
            if not header.startswith(BEARER):
                raise InvalidToken("there is none")
            return self._tokens.check(header[len(BEARER) :])
        except InvalidToken as error:
            if not is_needed:
                return None
            LOG.debug("refused a token: %s", error)
            raise without_token() from None

    def _decoded(self, request: web.BaseRequest, route: Endpoint, data: bytes) -> Any:
        kind = request.headers.get("Content-Type", "").partition(";")[0].strip().lower()
        if kind in route.other_bodies:
            return RawBody(kind, data)
        if kind != JSON and not (kind.startswith("application/") and kind.endswith("+json")):
            needed = ", ".join((JSON, *route.other_bodies))
            raise plain(415, f"Content-Type is {kind!r}: needs {needed}")
        decoder = self._decoders.get(route.body)
        if decoder is None:
            decoder = self._decoders[route.body] = msgspec.json.Decoder(route.body)
        try:
            return decoder.decode(data)
        except msgspec.ValidationError as error:
            raise plain(422, f"the body does not fit: {error}") from None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise plain(400, f"the body is no JSON: {error}") from None


def _answered(route: Endpoint, outcome: Any, headers: dict[str, str]) -> web.StreamResponse:
    if isinstance(outcome, web.StreamResponse):
        return outcome
    if outcome is None:
        return web.Response(status=route.status, headers=headers)
    if isinstance(outcome, Raw):
        named = {**headers, **outcome.headers, "Content-Type": outcome.content_type}
        return web.Response(status=route.status, body=outcome.body, headers=named)
    named = headers | {"Content-Type": JSON}
    return web.Response(status=route.status, body=msgspec.json.encode(outcome), headers=named)


def _response(failure: Failure, headers: dict[str, str]) -> web.Response:
    named = headers | failure.headers
    if failure.body:
        named["Content-Type"] = failure.content_type
    return web.Response(status=failure.status, body=failure.body, headers=named)


def _taker(caller: HttpCaller) -> str:
    if caller.user_id is None:
        return address_taker(origin_of(host_of(caller.address)))
    return user_taker(caller.user_id)


async def _raise(error: AssertionError) -> None:
    raise error
