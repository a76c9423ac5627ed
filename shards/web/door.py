"""The HTTP door of a shard: its listening socket, and the way of a request to its answer.

    CORS preflight? ── token ── route ── body ── call (commands.py, messages.py, ...) ── answer

Every shard opens it on one port that they share. A request needs no session, so any shard answers
any of them. What can go wrong on the way is an exception, and becomes an answer in one place.

Always: without a valid token nothing is said but 401, not even whether a path exists; only the
files of the console are for everyone. A fault of ours is answered with 500 and logged; a broken
invariant ends the worker, as on other doors.
"""

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from inspect import iscoroutine
from pathlib import Path
from time import perf_counter_ns
from typing import Any, Final, NamedTuple, Protocol

import msgspec
from aiohttp import web

from borzoi.protocol.errors import BrokerError
from borzoi.protocol.responses.clients import Transport
from borzoi.quantities import seconds
from borzoi.shards.admission.frames import connection_limits
from borzoi.shards.admission.places import ConnectionPlaces
from borzoi.shards.handlers.services import Services
from borzoi.shards.identity.origins import host_of, origin_of
from borzoi.shards.listening.handshakes import EncryptedDoor, Handshake
from borzoi.shards.listening.sockets import BACKLOG, bound_address, open_socket
from borzoi.shards.partitions.durability import Durability
from borzoi.shards.ports.arrivals import Arrivals
from borzoi.shards.rings.asking import Abandoned
from borzoi.shards.settings.schema import Config, Limits, TcpSocket
from borzoi.shards.tls.certificate import Certificate
from borzoi.shards.tls.context import ServerContext
from borzoi.shards.web.body import read_body, room_for_body
from borzoi.shards.web.cors import CorsRules
from borzoi.shards.web_connections.connections import SERVER, WebConnection, WebServer
from borzoi.shards.web_connections.exchange import Exchange, Raw, RawBody
from borzoi.shards.web_console.consumers import HeardNames
from borzoi.shards.web_console.facts import ServerFacts
from borzoi.shards.web_console.log_tail import LogTail
from borzoi.shards.web_console.pages import Console
from borzoi.shards.web_console.reports import Reports
from borzoi.shards.web_forms.failures import JSON, Failure, failure_of, plain, without_token
from borzoi.shards.web_forms.limits import BODIES_LARGEST, BODIES_SIZE_MIN
from borzoi.shards.web_forms.paths import read_query, segments_of
from borzoi.shards.web_groups.consuming import Consuming
from borzoi.shards.web_groups.members import LeasedMembers
from borzoi.shards.web_messages.streaming import Streaming
from borzoi.shards.web_routes.endpoint import Endpoint, Router
from borzoi.shards.web_routes.routes import Offers, all_routes
from borzoi.shards.web_tokens.caller import HttpCaller
from borzoi.shards.web_tokens.keys import open_keys
from borzoi.shards.web_tokens.logins import HttpLogins
from borzoi.shards.web_tokens.revocations import Revocations
from borzoi.shards.web_tokens.tokens import InvalidToken, TokenClaims, Tokens
from borzoi.shares import Shares, address_taker, user_taker
from borzoi.storage.layout import DataLayout

LOG: Final = logging.getLogger(__name__)

BEARER: Final = "Bearer "
ROUTE: Final = "borzoi.route"
CONSOLE: Final = "GET /ui"
STOP_TIME_MAX_S: Final = 1.0
PURGE_INTERVAL_S: Final = 300.0


class Counts(Protocol):
    """Since the start of this worker."""

    requests: int
    refused: int


class WebSettings(NamedTuple):
    """What the configuration says about this door."""

    config: Config
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
        members: LeasedMembers,
        metrics_text: Callable[[], Awaitable[bytes]],
        consumer_names: Callable[[], Awaitable[dict[int, str]]],
        counts: Counts,
    ) -> None:
        self._loop = loop
        self._services = services
        config, limits, self._layout = settings
        self._http = config.http
        self._console = Console(enabled=config.console.enabled, everywhere=config.http.web_ui)
        self._facts = ServerFacts(config, self._layout.root)
        logs = Path(self._layout.root, config.system.logging.path)
        reading = ThreadPoolExecutor(1, "console")
        self._log_tail = LogTail(logs, reading)
        self._reports = Reports(config.console.reports, reading)
        self.revocations = revocations
        self._members = members
        self._metrics_text = metrics_text
        self._consumer_names = HeardNames(consumer_names)
        self._counts = counts
        self._cors = CorsRules(self._http.cors)
        size_max = self._http.max_request_size
        total = max(BODIES_SIZE_MIN, BODIES_LARGEST * size_max)
        self.bodies = Shares("bytes of HTTP bodies", total, limits.share_weight)
        self._body_time_s = seconds(limits.frame_timeout)
        places = ConnectionPlaces[WebConnection | Handshake](
            max(1, limits.connections_max // 2),
            limits.connections_per_address_max,
            limits.connections_before_login_max,
            limits.share_weight,
        )
        self._size_max_before_login = min(size_max, limits.frame_size_max_before_login)
        self.connections = WebServer(
            loop, services.tasks, self._handle, places, connection_limits(limits), self._refused
        )
        self._server: asyncio.Server | EncryptedDoor | None = None
        self._context: ServerContext | None = None
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
        self._context = None if shown is None else ServerContext(shown)

    async def listen(self, address: str) -> str:
        """Open the socket; the address with the real port. ConfigError if a key cannot be used."""
        keys = open_keys(self._http.jwt, self._layout)
        self.revocations.load()
        self._tokens = Tokens(self._http.jwt, keys, self.revocations.covers)
        logins = HttpLogins(self._services, self._tokens, self.revocations)
        self._services.clear_text.opened(
            Transport.HTTP, address, encrypted=self._context is not None
        )
        metrics = self._http.metrics
        offers = Offers(
            logins,
            self._metrics_text,
            metrics.endpoint if metrics.enabled else None,
            self._closing,
            Streaming(self._arrivals, self._tokens, self._closing),
            Consuming(self._members, self._arrivals, self._closing),
            self._facts,
            self._log_tail,
            self._reports,
            self._consumer_names,
        )
        self._router = Router(all_routes(offers))
        listening = open_socket(address, TcpSocket())
        where = bound_address(listening)
        self._console.opened(address)
        if self._context is None:
            self._server = await self._loop.create_server(
                self.connections, sock=listening, backlog=BACKLOG
            )
        else:
            self._server = EncryptedDoor(self._loop, listening, self._arrived)
        return where

    def _arrived(self, accepted: socket.socket, host: str) -> None:
        assert self._context is not None, "a door with TLS keeps it"
        self.connections.arrived(accepted, host, self._context)

    async def close(self) -> None:
        """Stop accepting, let requests in work end, drop everything else."""
        self._closing.set()
        self._arrivals.wake_all()
        if self._server is None:
            return
        self._server.close()
        self.connections.give_up_handshakes()
        self.connections.pre_shutdown()
        await self.connections.shutdown(STOP_TIME_MAX_S)

    def check_deadlines(self) -> None:
        """Once a second."""
        self.connections.check_deadlines()
        self._members.check_leases()
        if self._loop.time() - self._purged_at > PURGE_INTERVAL_S:
            self._purged_at = self._loop.time()
            self.revocations.purge()

    def _refused(self) -> None:
        self._counts.refused += 1

    # The way of a request.

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer a request and count it, by the pattern of its path: any path may be asked for."""
        began = perf_counter_ns()
        answer = await self._answered_somehow(request)
        route = request.get(ROUTE, "")
        size = request.content_length or 0
        self._services.meters.web_request(route, began, size, answer.status)
        return answer

    async def _answered_somehow(self, request: web.BaseRequest) -> web.StreamResponse:
        connection = request.protocol
        assert isinstance(connection, WebConnection)
        self._counts.requests += 1
        connection.begins()
        headers = {"Server": SERVER, **self._cors.headers(request.headers)}
        try:
            return await self._answer(request, connection, headers)
        except Failure as failure:
            return _failed(request, failure, headers)
        except BrokerError as error:
            return _failed(request, failure_of(error), headers)
        except Abandoned:
            unknown = plain(503, "the outcome is not known: a shard has died")
            return _failed(request, unknown, headers)
        except (ConnectionError, asyncio.CancelledError):
            raise
        except AssertionError as error:
            self._services.tasks.start(_raise(error))
            raise
        except Exception:
            LOG.exception("%s %s failed through a fault of ours", request.method, request.rel_url)
            fault = plain(500, "a fault of the broker, which its log describes")
            return _failed(request, fault, headers)
        finally:
            connection.ends()

    async def _answer(
        self, request: web.BaseRequest, connection: WebConnection, headers: dict[str, str]
    ) -> web.StreamResponse:
        if request.method == "OPTIONS" and self._cors.enabled:
            return web.Response(headers=headers | self._cors.preflight(request.headers))
        path = request.rel_url.raw_path
        if self._console.serves(path):
            request[ROUTE] = CONSOLE
            page = self._console.answer(request.method, path, request.headers)
            return web.Response(
                status=page.status, body=page.body, headers=headers | dict(page.headers)
            )
        caller = self._caller(request, connection, is_needed=not self._router.is_public(path))
        route, names = self._router.find(request.method, segments_of(path))
        request[ROUTE] = f"{route.method} {route.path}"
        query = None
        if route.query is not None:
            query = read_query(request.rel_url.raw_query_string, route.query)
        is_known = caller.user_id is not None
        size_max = self._http.max_request_size if is_known else self._size_max_before_login
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

    def _caller(
        self, request: web.BaseRequest, connection: WebConnection, *, is_needed: bool
    ) -> HttpCaller:
        """The user of a request. What is taken in its name is taken by that user, and no other."""
        metadata = self._services.metadata
        claims = self._claims(request, is_needed=is_needed)
        caller = HttpCaller(metadata, connection.address, claims)
        connection.user_id = None
        if claims is not None:
            metadata.refresh()
            try:
                connection.user_id = caller.user
            except BrokerError:
                if is_needed:
                    raise
                return HttpCaller(metadata, connection.address, None)
        return caller

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


def _failed(request: web.BaseRequest, failure: Failure, headers: dict[str, str]) -> web.Response:
    if request.writer.output_size > 0:
        # A second head would be read as a part of the first answer.
        raise ConnectionError("an answer has begun, and cannot be ended")
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
