"""The HTTP server of a broker: events, WebSocket, health, metrics and administration.

*Theory.* A Starlette application, served by uvicorn's protocols on the broker's event loop and listeners. Every request
passes the same authenticator as native clients. Requests to the machine go through connections inside the process
(`in_process_client.py`, `in_process_connection.py`) and so into the same journal. Questions *about* the machine only
read.

*Rules.*
1. Every answer except streams and files is JSON (metrics: text), errors too: `{"error": why}`, with a fitting status.
2. `/healthz`, `/readyz` and `/client.js` need no authentication. `/events`, `/ws` and `/mqtt` are for authenticated
   clients. All other paths are for administrators: without users, for all requests from this machine.
3. A request from this machine whose Host header is not a local name counts as remote: it may come from a page in a
   local browser, or through a proxy. (A name that begins like an address is a name.) A request from a page of another
   origin is refused unless `origins` has that origin. So is a cross-site request without an Origin header (an image, a
   link): listening as a client would take over its session.
4. A body has at most `body_bytes_max`; `http_protocols.py` limits the memory and time of connections and requests.
   There are at most `connections_max` connections, and `RESERVED` more for health and administration.
5. While no inputs are accepted (the disk fails), posts are answered by 503 at once, and nothing waits in memory.
6. A user above its rate limits (`client_rates.py`) waits before the body of its request is read; if that would take
   longer than `WAIT_S_MAX`, the answer is 429.
7. Of many simultaneous requests only a few begin in each turn of the loop (`pacing.py`).
8. While the process uses too much memory (`memory_guard.py`), clients are answered by 503.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from functools import partial
from operator import attrgetter
from time import time
from typing import Any, cast

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect, HTTPConnection, Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.websockets import WebSocket

from godwit import __version__
from godwit.errors import GodwitError, PeerFault
from godwit.filters.events import Event
from godwit.filters.language import to_text
from godwit.languages.query import NATIVE
from godwit.runtime import given_cloud_events
from godwit.runtime.activity_monitor import ActivityMonitor, TraceListener
from godwit.runtime.authentication import Authenticator, Credentials, Principal, is_local
from godwit.runtime.cloud_event_sockets import SUBPROTOCOL, serve_cloud_events
from godwit.runtime.dashboard_files import dashboard_response, tile_response
from godwit.runtime.dashboard_settings import DashboardSettings
from godwit.runtime.edge_tests import EdgeTests
from godwit.runtime.explanations import explained
from godwit.runtime.filter_questions import parsed, told_pair
from godwit.runtime.http_administration import AdministrationRoutes
from godwit.runtime.http_documents import posted_events
from godwit.runtime.http_events import BadBody, EventStream, Publishers, work_of_events
from godwit.runtime.http_jobs import JobRoutes
from godwit.runtime.http_listener import HttpListener
from godwit.runtime.http_listening import listening_of
from godwit.runtime.http_polling import POLLED, EventPoll, accepted_format, checked_poll
from godwit.runtime.http_protocols import (
    AUDIT,
    CLOSINGS,
    HOSTS,
    LISTENER,
    MEMORY,
    PLACES,
    Places,
    SocketProtocol,
)
from godwit.runtime.http_requests import (
    Problem,
    body_of,
    certificate_of,
    credentials_in,
    is_local_name,
    is_reserved,
    json_response,
    peer_of,
    why_other_site,
)
from godwit.runtime.http_sockets import serve_mqtt, serve_native
from godwit.runtime.http_tickets import TicketAuthenticator, Tickets, is_ticket
from godwit.runtime.http_tracing import TraceStream
from godwit.runtime.in_process_client import ConnectionClosed
from godwit.runtime.inspection import Inspection
from godwit.runtime.metrics import CONTENT_TYPE, Metrics
from godwit.runtime.network_questions import WAIT_MS
from godwit.runtime.node import Node
from godwit.runtime.pacing import Pacer
from godwit.runtime.question_parts import event_id, shown_rows
from godwit.runtime.rate_limits import HostConnections, work_of
from godwit.runtime.rights_questions import may, users_told
from godwit.runtime.security_log import AuditedAuthenticator
from godwit.runtime.static_files import CLIENT, file_response
from godwit.runtime.tcp import Address, NativeServer
from godwit.runtime.wire import JSON, Intro

__all__ = ["ROUTES", "SOCKETS", "HttpServer", "Problem"]

BODY_BYTES_MAX = 16 * 2**20
WAIT_S_MAX = 10.0
WILD = ("", "0.0.0.0", "::")

NO_PLACE = "this broker accepts no more connections"
OVER_RATE = "rate limit exceeded (limits.work_per_s, bytes_per_s): try again later"
IS_FULL = "memory limit reached (limits.memory_bytes_max): try again later"

EVERYBODY, CLIENTS, ADMINISTRATORS = "everybody", "clients", "administrators"

ROUTES = (
    ("GET", "/", "index", EVERYBODY),
    ("GET", "/healthz", "healthz", EVERYBODY),
    ("GET", "/readyz", "readyz", EVERYBODY),
    ("GET", "/client.js", "client_script", EVERYBODY),
    ("POST", "/events", "post_events", CLIENTS),
    ("GET", "/events", "listen_to_events", CLIENTS),
    ("POST", "/events/ticket", "tickets.give", CLIENTS),
    ("POST", "/ws/ticket", "socket_tickets.give", CLIENTS),
    ("GET", "/metrics", "show_metrics", ADMINISTRATORS),
    ("GET", "/sessions", "sessions", ADMINISTRATORS),
    ("GET", "/sessions/{client:path}", "session", ADMINISTRATORS),
    ("GET", "/routes", "routes", ADMINISTRATORS),
    ("GET", "/links", "links", ADMINISTRATORS),
    ("GET", "/network", "network", ADMINISTRATORS),
    ("GET", "/trace", "trace", ADMINISTRATORS),
    ("GET", "/explain", "explain", ADMINISTRATORS),
    ("GET", "/everywhere/{subject}", "everywhere", ADMINISTRATORS),
    ("GET", "/why", "why", ADMINISTRATORS),
    ("GET", "/filter", "filter", ADMINISTRATORS),
    ("GET", "/workbench", "workbench", ADMINISTRATORS),
    ("GET", "/retained", "administration.retained", ADMINISTRATORS),
    ("GET", "/queue", "administration.queue", ADMINISTRATORS),
    ("GET", "/backup", "administration.backup", ADMINISTRATORS),
    ("POST", "/administration/{action}", "administration.act", ADMINISTRATORS),
    ("GET", "/users", "users", ADMINISTRATORS),
    ("GET", "/may", "may", ADMINISTRATORS),
    ("GET", "/tiles/{level:int}/{column:int}/{row:int}", "tile", ADMINISTRATORS),
    ("GET", "/jobs", "jobs.show", ADMINISTRATORS),
    ("GET", "/jobs/scenarios", "jobs.scenarios", ADMINISTRATORS),
    ("GET", "/jobs/files/{path:path}", "jobs.file", ADMINISTRATORS),
    ("POST", "/jobs/{kind}", "jobs.start", ADMINISTRATORS),
    ("GET", "/dashboard/{path:path}", "dashboard", EVERYBODY),
)
"""Each path: its method, its handler, and the required role."""

STREAMED: dict[str, Callable[[Event], bytes]] = {"godwit": JSON.event, "cloudevents": given_cloud_events.structured}
"""The formats of event streams."""

STREAMS = ("listen_to_events", "trace")
"""Paths whose answer has no end."""

SOCKETS = (("/ws", "socket"), ("/events", "cloud_event_socket"), ("/mqtt", "mqtt_socket"))
"""The same for WebSockets, which are for clients."""

Handler = Callable[[Principal, Request], Awaitable[Any]]


class HttpServer:
    """HTTP for one broker. `gateway`: accepts MQTT over WebSocket."""

    def __init__(
        self,
        node: Node,
        server: NativeServer,
        authenticator: Authenticator,
        *,
        gateway: Any = None,
        tests: EdgeTests | None = None,
        dashboard: DashboardSettings = DashboardSettings(),  # noqa: B008 (it is frozen)
        origins: Iterable[str] = (),
        connections_max: int | None = None,
        body_bytes_max: int = BODY_BYTES_MAX,
    ) -> None:
        self.node = node
        self.server = server
        self.authenticator = authenticator
        self.audit = server.audit
        self.tickets = Tickets("/events/ticket", "stream")
        self.socket_tickets = Tickets("/ws/ticket", "WebSocket")
        audited = partial(AuditedAuthenticator, listener=LISTENER, log=server.audit)
        self._admits = audited(TicketAuthenticator(authenticator, self.tickets))
        self._admits_socket = audited(TicketAuthenticator(authenticator, self.socket_tickets))
        self.gateway = gateway
        self.origins = tuple(origins)
        self.body_bytes_max = body_bytes_max
        self.tests = EdgeTests(node) if tests is None else tests
        self.activity = ActivityMonitor(node)
        self.activity.on_refusal = partial(self.audit.refused_by_machine, node.ports)
        self.metrics = Metrics(node, server.memory, self.activity, self.tests, self.audit, self._counted)
        self.settings = dashboard
        self.inspection = Inspection(node, server, self.activity, self.tests, dashboard)
        self.inspection.on_samples = self.metrics.keep_sampling
        server.questions.answer = self.inspection.answer
        self.jobs = JobRoutes(self._body)
        self.administration = AdministrationRoutes(node, self.audit, self._body)
        self.connections_max = server.traffic.connections_max if connections_max is None else connections_max
        self.is_closing = False
        self._publishers = Publishers(node)
        self._streams: dict[Any, Principal | None] = {}  # responses to end when the broker stops
        self._relief = asyncio.Event()
        node.on_relief.append(self._relief.set)
        self._hosts = HostConnections(server.traffic.connections_per_host_max)
        self._places = Places(self.connections_max)
        self._requests = Pacer()
        self._listener = HttpListener(
            self._application(),
            {
                HOSTS: self._hosts,
                PLACES: self._places,
                MEMORY: server.memory,
                CLOSINGS: server.closings,
                AUDIT: server.audit,
            },
            node.urgency,
            ws=SocketProtocol,
            ws_max_size=server.frame_bytes_max,
            ws_per_message_deflate=False,  # otherwise a few bytes could expand to many before they are counted
        )

    # ------------------------------------------------------------ coming and going

    async def listen(self, host: str, port: int, tls: ssl.SSLContext | None = None) -> Address:
        """Listen at an address. With port 0, the system chooses one."""
        is_first = not self.listening
        taken = await self._listener.listen(host, port, tls)
        if is_first:
            shown = "" if taken.host in WILD else f"[{taken.host}]" if ":" in taken.host else taken.host
            self.server.http = f"{'http' if tls is None else 'https'}://{shown}:{taken.port}"
        return taken

    async def close(self) -> None:
        """Stop listening, end all responses, and close all connections."""
        self.is_closing = True
        self._relief.set()
        self.metrics.stop()
        self._listener.stop_listening()
        for stream in list(self._streams):
            stream.end()
        self._publishers.close()
        await self.jobs.jobs.close()
        await self._listener.close_connections()
        if self.settings.tiles is not None:
            self.settings.tiles.close()

    def keep(self, stream: Any, principal: Principal | None = None) -> None:
        """Register a response to end when the broker stops. `principal`: the principal whose rights it depends on."""
        self._streams[stream] = principal

    def drop(self, stream: Any) -> None:
        """This is over."""
        self._streams.pop(stream, None)

    async def room(self) -> None:
        """Wait until the node accepts inputs."""
        while self.node.holds() and not self.is_closing:
            self._relief.clear()
            await self._relief.wait()

    # ------------------------------------------------------------ who asks

    async def admit(self, connection: HTTPConnection, **more: str) -> Principal:
        """Authenticate a request. PeerFault: access is refused. (rules 2, 3)"""
        self._check_origin(connection)
        said = credentials_in(connection.headers.get("authorization", ""))
        said = {**{name: value for name, value in more.items() if value}, **said}
        who = Credentials(self._host_of(connection), certificate=certificate_of(connection), **said)
        principal = await (self._admits_socket if isinstance(connection, WebSocket) else self._admits).admit(who)
        peer_of(connection).admit(principal.user, is_administrator=principal.is_admin)
        return principal

    @property
    def listening(self) -> list[Address]:
        """Where it does."""
        return self._listener.listening

    @property
    def connections(self) -> list[Any]:
        """The open connections."""
        return self._listener.connections

    def _host_of(self, connection: HTTPConnection) -> str:
        """The remote host of a request, as the authenticator sees it. (rule 3)"""
        host = connection.client.host if connection.client else "an unknown host"  # which is not this one
        is_beyond = is_local(host) and not is_local_name(connection.headers.get("host", ""))
        return f"beyond {host}" if is_beyond else host

    def _check_origin(self, connection: HTTPConnection) -> None:
        if reason := why_other_site(connection.headers, self.origins):
            raise Problem(403, f"{reason} may not use this broker", "origin")

    # ------------------------------------------------------------ the application

    def _application(self) -> Starlette:
        routes: list[BaseRoute] = [self._route(*row) for row in ROUTES]
        routes += [WebSocketRoute(path, getattr(self, handler)) for path, handler in SOCKETS]
        allowed = Middleware(
            CORSMiddleware,
            allow_origins=self.origins,
            allow_methods=["GET", "POST"],
            allow_headers=["authorization", "content-type", "last-event-id"],
            expose_headers=["last-event-id"],
        )
        handlers = {HTTPException: self._on_http_exception}
        return Starlette(routes=routes, middleware=[allowed] if self.origins else [], exception_handlers=handlers)  # type: ignore[arg-type]

    def _route(self, method: str, path: str, name: str, right: str) -> Route:
        handler: Handler = attrgetter(name)(self)

        async def endpoint(request: Request) -> Any:
            await self._requests.turn()
            try:
                if right == CLIENTS and (reason := self._why_not(request)):
                    raise Problem(503, reason)
                if right == EVERYBODY:
                    return await handler(Principal(), request)
                ticket = request.query_params.get("ticket", "") if name == "listen_to_events" else ""
                principal = await self.admit(request, ticket=ticket)
                if right == ADMINISTRATORS and not principal.is_admin:
                    raise Problem(403, "only administrators may do this", "admin")
                return await handler(principal, request)
            except Problem as problem:
                self._report(request, problem)
                return json_response({"error": str(problem), **problem.more}, problem.status)
            except BadBody as bad:
                return json_response({"error": str(bad), **bad.where}, 400)
            except ConnectionClosed as hung:
                return json_response({"error": str(hung)}, 503, {"retry-after": "1"})
            except PeerFault as fault:
                # Chromium asks for a password only if each scheme has a realm.
                challenge = {"www-authenticate": 'Basic realm="godwit", Bearer realm="godwit"'}
                return json_response({"error": str(fault)}, 401, {} if "ticket" in request.query_params else challenge)
            except ClientDisconnect:
                return Response(status_code=400)
            except GodwitError as error:
                return json_response({"error": str(error)}, 400)

        route = Route(path, endpoint, methods=[method], name=f"{method} {path}")
        if name in STREAMS and route.methods is not None:
            route.methods.discard("HEAD")  # which would open one without effect
        return route

    def _report(self, connection: HTTPConnection, problem: Problem) -> None:
        """A request was refused: if it concerns security, it is recorded in the security log."""
        if problem.cause:
            user, host = peer_of(connection).user_of() or "", self._host_of(connection)
            what = f"{connection.scope.get('method', 'WebSocket')} {connection.url.path}"
            self.audit.request(LISTENER, host, str(problem), problem.cause, user=user, what=what)

    def _counted(self) -> dict[str, int]:
        """The number of connections of each listener."""
        mqtt = 0 if self.gateway is None else len(self.gateway.connections)
        return {"native": len(self.server.connections), "mqtt": mqtt, "http": len(self.connections)}

    def _why_not(self, connection: HTTPConnection) -> str:
        """Why clients are not accepted now; "" if they are."""
        if is_reserved(connection) or self.is_closing:
            return NO_PLACE
        return IS_FULL if self.server.memory.is_full else ""

    async def _on_http_exception(self, request: Request, error: HTTPException) -> Response:
        return json_response({"error": f"{request.url.path}: {error.detail}"}, error.status_code, error.headers)

    # ------------------------------------------------------------ health

    async def index(self, principal: Principal, request: Request) -> Response:
        """The start page: the dashboard, for browsers."""
        if "text/html" in request.headers.get("accept", ""):
            return RedirectResponse("/dashboard/")
        paths = [getattr(route, "path", "") for route in cast(Any, request.app).routes]
        return json_response({"broker": self.server.name, "version": __version__, "paths": sorted(set(paths))})

    async def healthz(self, principal: Principal, request: Request) -> Response:
        """The event loop is running, or this would not be answered."""
        return json_response({"ok": True, "broker": self.server.name, "version": __version__})

    async def readyz(self, principal: Principal, request: Request) -> Response:
        """Whether this broker is ready, and if not, why."""
        reasons = self.reasons()
        return json_response({"ready": not reasons, "reasons": reasons}, 503 if reasons else 200)

    async def client_script(self, principal: Principal, request: Request) -> Response:
        """The client for browsers."""
        return file_response(request, CLIENT)

    def reasons(self) -> list[str]:
        """Why this broker is not ready."""
        reasons = ["the broker stops"] if self.is_closing else []
        if self.node.trouble:
            reasons.append(f"the journal cannot be written: {self.node.trouble}")
        links = getattr(self.node.machine, "links", {})
        reasons += [f"the link to {peer} is down" for peer, link in links.items() if not link.open]
        return reasons

    async def show_metrics(self, principal: Principal, request: Request) -> Response:
        """For Prometheus."""
        return Response(self.metrics.text(), headers={"content-type": CONTENT_TYPE})

    # ------------------------------------------------------------ events

    async def post_events(self, principal: Principal, request: Request) -> Response:
        """Publish the events in the body. 202: they are in the journal."""
        async with self._in_turn(principal, request) as take:
            body = await self._body(request)
            events = await posted_events(body, request.headers, time(), self.tests.helper, principal.user)
            take(len(events), len(body), work_of_events(events))
        if reason := principal.why_over():  # while the body came
            raise PeerFault(reason)
        if self.node.is_held or self.is_closing:
            raise Problem(503, self.node.trouble or "no events are accepted at present")
        origin, principal.origin = principal.origin, None  # the publisher of a user is shared by all its requests
        retain, clear = request.query_params.get("retain"), request.query_params.get("clear") is not None
        outcomes = await self._publishers.of(principal).publish(events, principal, retain, clear=clear)
        refused = [
            {"line": line, "id": id, "reason": reason}
            for line, (id, reason) in enumerate(outcomes, start=1)
            if reason is not None
        ]
        ids = [id for id, reason in outcomes if reason is None]
        if refused:
            for each in refused:
                self._report_refused(origin, principal, each)
            return json_response({"error": refused[0]["reason"], "refused": refused, "ids": ids}, 403)
        return json_response({"ids": ids}, 202)

    def _report_refused(self, origin: Any, principal: Principal, refused: dict[str, Any]) -> None:
        if origin is not None:
            origin.refused(refused["reason"], user=principal.user, what=f"POST /events, line {refused['line']}")

    async def _body(self, request: Request) -> bytes:
        return await body_of(request, self.body_bytes_max)

    @asynccontextmanager
    async def _in_turn(self, principal: Principal, request: Request) -> AsyncIterator[Callable[[int, int, int], float]]:
        """Wait while the user is above its rate limits; the request takes messages, bytes and work. (rule 6)"""
        client, now = request.client, asyncio.get_running_loop().time
        rate = self.server.rates.enter(principal.user, now(), f"{client.host}:{client.port}" if client else "")
        try:
            patient_until = now() + WAIT_S_MAX
            while (wait_s := rate.take(0, 0, 0, now())) > 0:
                if now() + wait_s > patient_until:
                    raise Problem(429, OVER_RATE, "limit")
                await asyncio.sleep(wait_s)
            yield lambda messages, size, work: rate.take(messages, size, work, now())
        finally:
            rate.leave(now())

    async def listen_to_events(self, principal: Principal, request: Request) -> Any:
        """Listen to the events that a filter matches: server-sent events, or CloudEvents by polling."""
        asked = request.query_params
        form = asked.get("format") or accepted_format(request.headers.get("accept", "")) or "godwit"
        if form not in (*STREAMED, *POLLED):
            raise Problem(400, f"format is {form[:40]!r}: allowed are {', '.join((*STREAMED, *POLLED))}")
        poll = checked_poll(asked)
        listening = await listening_of(principal, asked, request.headers, self.tests)
        async with self._in_turn(principal, request) as take:
            take(1, 0, work_of(listening.wanted))
        if form in POLLED:
            polling = EventPoll(self.node, principal, listening, format=form, tests=self.tests, on_end=self.drop)
            self.keep(polling)
            return await polling.answer(*poll)
        stream = EventStream(
            self.node, principal, listening, tests=self.tests, on_end=self.drop, write_event=STREAMED[form]
        )
        self.keep(stream)
        try:
            return await stream.open()
        except BaseException:
            self.drop(stream)
            raise

    # ------------------------------------------------------------ a look inside

    async def sessions(self, principal: Principal, request: Request) -> Response:
        """All sessions, in short."""
        return json_response(self.inspection.answer("sessions", request.query_params))

    async def session(self, principal: Principal, request: Request) -> Response:
        """One session."""
        client = request.path_params["client"]
        found = self.inspection.sessions.one(client)
        if found is None:
            raise Problem(404, f"{client!r} has no session at {self.server.name}")
        return json_response(found)

    async def routes(self, principal: Principal, request: Request) -> Response:
        """The routing tables."""
        return json_response(await self.inspection.answer("routes", request.query_params))

    async def links(self, principal: Principal, request: Request) -> Response:
        """The links to neighbours."""
        return json_response(self.inspection.links())

    async def network(self, principal: Principal, request: Request) -> Response:
        """This broker, and the HTTP addresses of its neighbours."""
        return json_response(self.inspection.network())

    async def explain(self, principal: Principal, request: Request) -> Response:
        """This broker's part of the explanation why a client did or did not receive an event."""
        return json_response(self.inspection.answer("explain", request.query_params))

    async def everywhere(self, principal: Principal, request: Request) -> Response:
        """The answers of all brokers of the network, and the brokers that have not answered."""
        asked = dict(request.query_params)
        wait_ms = shown_rows(asked, "wait_ms", WAIT_MS, WAIT_MS)
        found = await self.server.questions.ask_encoded(request.path_params["subject"], asked, wait_ms / 1_000)
        return json_response(found._asdict())

    async def trace(self, principal: Principal, request: Request) -> Any:
        """Trace records, as server-sent events."""
        asked = request.query_params
        listener = TraceListener(asked.get("client", ""), event_id(asked["event"]) if asked.get("event") else None)
        last = shown_rows(asked, "last", 0)
        stream = TraceStream(self.activity, self.server.name, principal, listener, last, self.drop)
        self.keep(stream, principal)
        return stream.response

    async def why(self, principal: Principal, request: Request) -> Response:
        """Why a client did or did not receive an event, or would receive one, from all brokers of the network."""
        return json_response(await explained(self.server.questions.ask, request.query_params, self.server.name))

    async def filter(self, principal: Principal, request: Request) -> Response:
        """The printed form of a filter, or its error."""
        asked = request.query_params
        query = await parsed(self.tests, asked.get("filter") or "TRUE", asked.get("language") or NATIVE)
        return json_response(
            {"text": query.text, "routable": to_text(query.routable), "is_routable": query.test is None}
        )

    async def workbench(self, principal: Principal, request: Request) -> Response:
        """The meaning of a filter, or its error and position; and its relation to another."""
        return json_response(await told_pair(self.tests, request.query_params))

    async def users(self, principal: Principal, request: Request) -> Response:
        """Users and their rights, from the user file of this broker."""
        return json_response(users_told(getattr(self.authenticator, "users", None)))

    async def may(self, principal: Principal, request: Request) -> Response:
        """Whether a user has a right, and if not, why."""
        return json_response(may(getattr(self.authenticator, "users", None), request.query_params))

    async def dashboard(self, principal: Principal, request: Request) -> Response:
        """The files of the dashboard. Their data is requested by the page, and is for administrators."""
        return dashboard_response(request, request.path_params["path"], self.settings.tiles_origin)

    async def tile(self, principal: Principal, request: Request) -> Response:
        """A map tile, if there is a file of tiles."""
        return tile_response(self.settings.tiles, **request.path_params)

    # ------------------------------------------------------------ sockets

    async def socket(self, websocket: WebSocket) -> None:
        """The JSON form of the native protocol; or CloudEvents, if the client offers that subprotocol."""
        if SUBPROTOCOL in websocket.scope.get("subprotocols", ()):
            await self.cloud_event_socket(websocket)
        elif await self._takes(websocket):
            await serve_native(self, websocket, peer_of(websocket))

    async def cloud_event_socket(self, websocket: WebSocket) -> None:
        """CloudEvents, both ways."""
        if SUBPROTOCOL not in websocket.scope.get("subprotocols", ()):
            await websocket.close(1008, f"the subprotocol must be {SUBPROTOCOL}")
        elif await self._takes(websocket):
            await serve_cloud_events(self, websocket, peer_of(websocket))

    async def publish(self, principal: Principal, events: list[Event]) -> list[str]:
        """Publish events of a client; why some were refused."""
        outcomes = await self._publishers.of(principal).publish(events, principal, None, clear=False)
        return [reason for _, reason in outcomes if reason is not None]

    async def mqtt_socket(self, websocket: WebSocket) -> None:
        """MQTT, if there is a gateway."""
        if self.gateway is None:
            await websocket.close(1008, "this broker does not offer MQTT")
        elif await self._takes(websocket):
            host, certificate = self._host_of(websocket), certificate_of(websocket)
            await serve_mqtt(self, websocket, self.gateway, host, certificate, peer_of(websocket))

    async def _takes(self, websocket: WebSocket) -> bool:
        """Whether a connection is accepted: there is room, and its origin is allowed. Otherwise it is closed."""
        try:
            self._check_origin(websocket)
            if reason := self._why_not(websocket):
                raise Problem(503, reason)
        except Problem as problem:
            self._report(websocket, problem)
            await websocket.close(1008, str(problem))
            return False
        return True

    async def admit_socket(self, socket: WebSocket, intro: Intro) -> Principal:
        """Authenticate a WebSocket. PeerFault: access is refused."""
        kind = "ticket" if is_ticket(intro.token) else "token"
        try:
            return await self.admit(socket, user=intro.user, password=intro.password, **{kind: intro.token})
        except Problem as problem:
            raise PeerFault(str(problem)) from None
