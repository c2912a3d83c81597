"""Traces of three brokers in processes of their own, as a collector gets them."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from godwit.runtime import connect
from tests.network.mqtt_devices import Device
from tests.network.serving import free_address, serving
from tests.network.waiting import run

pytest.importorskip("opentelemetry.sdk.trace")
trace_service = pytest.importorskip("opentelemetry.proto.collector.trace.v1.trace_service_pb2")

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class Collector(ThreadingHTTPServer):
    """Takes spans as OTLP over HTTP."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.spans: list[tuple[str, Any]] = []  # broker, span

    def take(self, body: bytes) -> None:
        for group in trace_service.ExportTraceServiceRequest.FromString(body).resource_spans:
            resource = {each.key: each.value.string_value for each in group.resource.attributes}
            assert resource["service.name"] == "fleet"
            for scope in group.scope_spans:
                self.spans += [(resource["service.instance.id"], span) for span in scope.spans]


class Handler(BaseHTTPRequestHandler):
    """One request."""

    server: Collector

    def do_POST(self) -> None:
        assert self.path == "/v1/traces"
        self.server.take(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *said: Any) -> None:
        """Nothing is printed."""


@contextmanager
def collector() -> Iterator[Collector]:
    server = Collector()
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def configured(folder: Path, name: str, port: int, neighbours: str, mqtt: str = "") -> str:
    (folder / f"{name}.toml").write_text(
        f"[broker]\nname = '{name}'\n[listen]\nnative = '127.0.0.1:0'\nmqtt = '{mqtt}'\nhttp = ''\n"
        f"[journal]\nfolder = '{name}'\n[neighbours]\n{neighbours}\n"
        f"[telemetry]\nendpoint = 'http://127.0.0.1:{port}/v1/traces'\nservice_name = 'fleet'\n"
    )
    return f"{name}.toml"


def test_an_event_and_a_relocation_are_one_trace_each_over_three_brokers(tmp_path: Path) -> None:
    async def scene(port: int) -> None:
        async with AsyncExitStack() as stack:
            mqtt = str(free_address())
            b1 = await stack.enter_async_context(
                serving(configured(tmp_path, "b1", port, "b2 = ''", mqtt), folder=tmp_path)
            )
            names = f"b1 = '{b1.native}'\nb3 = ''"
            b2 = await stack.enter_async_context(serving(configured(tmp_path, "b2", port, names), folder=tmp_path))
            names = f"b2 = '{b2.native}'"
            b3 = await stack.enter_async_context(serving(configured(tmp_path, "b3", port, names), folder=tmp_path))
            await b1.log("link up", peer="b2")
            await b2.log("link up", peer="b3")
            van = Device("van")
            await van.connect(int(mqtt.rpartition(":")[2]))
            stack.push_async_callback(van.disconnect)
            ann = await stack.enter_async_context(connect(b3.native, name="ann"))
            wanted = await ann.subscribe("topic = 'fleet/a'")
            events = aiter(wanted)
            came = asyncio.ensure_future(anext(events))
            while not came.done():  # until the subscription has spread, nobody gets them
                await van.publish("fleet/a", b"", 1, UserProperty=[("traceparent", PARENT)])
                await asyncio.wait([came], timeout=0.05)
            assert came.result().attributes["traceparent"] == PARENT
            await ann.move(b1.native)
            await van.publish("fleet/a", b"last", 1)
            while (await anext(events)).payload != b"last":  # which comes when the session is there
                pass
            for each in (b1, b2, b3):
                assert await each.stop() == 0

    with collector() as found:
        run(lambda: scene(found.server_address[1]))
    spans = found.spans
    deliver = next(span for broker, span in spans if (broker, span.name) == ("b3", "deliver"))
    path, span = [("b3", deliver)], deliver
    while above := [each for each in spans if each[1].span_id == span.parent_span_id]:
        assert len(above) == 1
        path += above
        span = above[0][1]
    assert [(broker, each.name) for broker, each in path] == [
        ("b3", "deliver"),
        ("b3", "route b3"),
        ("b2", "route b2"),
        ("b1", "route b1"),
        ("b1", "publish"),
    ]
    assert {each.trace_id.hex() for _, each in path} == {PARENT.split("-")[1]}
    assert span.parent_span_id.hex() == PARENT.split("-")[2]
    [relocate] = [span for broker, span in spans if (broker, span.name) == ("b1", "relocate")]
    [hand_over] = [span for broker, span in spans if (broker, span.name) == ("b3", "hand over")]
    assert (hand_over.trace_id, hand_over.parent_span_id) == (relocate.trace_id, relocate.span_id)
    assert relocate.end_time_unix_nano >= relocate.start_time_unix_nano
