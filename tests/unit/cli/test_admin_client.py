"""Asking a broker over HTTP: credentials go to brokers, and nowhere else."""

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import pytest

from godwit.cli.admin_client import AdminClient, office
from godwit.errors import GodwitError


@contextmanager
def server(location: str, heard: list[str]) -> Iterator[str]:
    """Somebody who sends whoever comes elsewhere, and its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            heard.append(self.headers.get("authorization", ""))
            self.send_response(302)
            self.send_header("location", location)
            self.end_headers()

        def log_message(self, *words: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as made:
        thread = Thread(target=made.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{made.server_port}"
        finally:
            made.shutdown()
            thread.join()


def test_who_redirects_learns_of_no_password_for_others() -> None:
    taken: list[str] = []
    with (
        server("http://127.0.0.1:1/", taken) as thief,
        server(f"{thief}/network", []) as broker,
        pytest.raises(GodwitError, match="302"),
    ):
        office(broker, "", "ann", "right", "").ask("/network")
    assert taken == []


def test_no_password_goes_from_tls_to_a_line_without_it() -> None:
    desk = AdminClient("https://b1.example:7080", "token", "ann", "right")
    assert desk.elsewhere("http://b2.example:7080") == AdminClient("http://b2.example:7080")
    assert desk.elsewhere("https://b2.example:7080") == desk._replace(url="https://b2.example:7080")
    assert desk.elsewhere(":7081") == desk._replace(url="https://b1.example:7081")
    plain = desk._replace(url="http://127.0.0.1:7080")
    assert plain.elsewhere("http://127.0.0.1:7081") == plain._replace(url="http://127.0.0.1:7081")
