"""HTTP requests to a broker, as `godwit sessions`, `routes`, `admin` and others send them.

Only the standard library is used, and only when a command runs. Passwords and tokens are sent to the named broker and
to the neighbours that it reports; never to the target of a redirect, nor without TLS after a TLS connection.
"""

import base64
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any, BinaryIO, NamedTuple
from urllib.parse import quote, urlencode, urlsplit

from godwit.cli.broker_connection import trusting
from godwit.cli.signatures import Option
from godwit.errors import GodwitError

__all__ = ["HTTP", "AdminClient", "Http", "office"]

HTTP = "127.0.0.1:7080"
ANSWER_S = 10.0
FETCH_S = 600.0  # between two parts of a large answer
ANSWER_BYTES_MAX = 256 * 2**20

Http = Annotated[
    str,
    Option("--http", metavar="HOST:PORT", envvar="GODWIT_HTTP", help="HTTP address of the broker, or a URL for TLS."),
]


class AdminClient(NamedTuple):
    """The HTTP address of a broker, and the credentials."""

    url: str
    token: str = ""
    user: str = ""
    password: str = ""
    ca: str = ""

    def ask(self, path: str, **question: Any) -> Any:
        """Send GET, and decode the JSON of the answer."""
        import json

        with self._opened(path, question, ANSWER_S) as answer:
            try:
                return json.loads(answer.read(ANSWER_BYTES_MAX))
            except (ValueError, RecursionError):
                raise GodwitError(f"{self.url}{path}: not valid JSON: is that a Godwit broker?") from None

    def post(self, path: str, **fields: Any) -> Any:
        """Send POST, and decode the JSON of the answer. Fields that are None are left out."""
        import json

        said = {name: value for name, value in fields.items() if value not in (None, "")}
        with self._opened(path, {}, ANSWER_S, json.dumps(said).encode()) as answer:
            return json.loads(answer.read(ANSWER_BYTES_MAX))

    def fetch(self, path: str, to: BinaryIO) -> int:
        """Write the answer to a file while it arrives; returns the number of bytes."""
        import shutil

        with self._opened(path, {}, FETCH_S) as answer:
            shutil.copyfileobj(answer, to, 2**20)
        return to.tell()

    def stream(self, path: str, **question: Any) -> Iterator[Any]:
        """Server-sent events, each decoded from JSON, as they arrive."""
        import json

        with self._opened(path, question, None) as answer:
            for line in answer:
                if line.startswith(b"data:"):
                    yield json.loads(line[5:])

    def elsewhere(self, address: str) -> "AdminClient":
        """The same credentials for another broker; an address that is only a port is on the host of this one."""
        host = urlsplit(self.url).hostname or ""
        there = self._replace(url=_url(f"{host}{address}" if address.startswith(":") else address, self.url))
        is_safe = there.url.startswith("https:") or not self.url.startswith("https:")
        return there if is_safe else AdminClient(there.url)

    @contextmanager
    def _opened(
        self, path: str, question: dict[str, Any], timeout: float | None, body: bytes | None = None
    ) -> Iterator[Any]:
        from urllib.error import HTTPError, URLError
        from urllib.request import HTTPRedirectHandler, HTTPSHandler, Request, build_opener

        class Stay(HTTPRedirectHandler):
            """Follows no redirect: the headers contain credentials."""

            def redirect_request(self, *about: Any) -> None:
                return None

        asked = {name: value for name, value in question.items() if value not in (None, "")}
        url = f"{self.url}{quote(path)}{'?' + urlencode(asked) if asked else ''}"
        headers = {"Accept": "application/json, text/event-stream", **self._authorization()}
        if body is not None:
            headers["Content-Type"] = "application/json"
        request = Request(url, data=body, headers=headers)
        try:
            opener = build_opener(Stay, *([HTTPSHandler(context=trusting(self.ca))] if self.ca else []))
            with opener.open(request, timeout=timeout) as answer:
                yield answer
        except HTTPError as error:
            raise GodwitError(_said(error, url)) from None
        except URLError as error:
            raise GodwitError(f"{self.url}: {_why(error.reason)}") from None
        except (OSError, ValueError) as error:
            raise GodwitError(f"{self.url}: {_why(error)}") from None

    def _authorization(self) -> dict[str, str]:
        if self.token:
            return {"Authorization": f"Bearer {self.token}"}
        if self.user:
            pair = base64.b64encode(f"{self.user}:{self.password}".encode()).decode()
            return {"Authorization": f"Basic {pair}"}
        return {}


def office(http: str, token: str, user: str, password: str, ca: str) -> AdminClient:
    """The broker named on the command line."""
    return AdminClient(_url(http, "https://" if ca else "http://"), token, user, password, ca)


def _url(address: str, like: str) -> str:
    """`host:port` as a URL of the scheme of another, and a URL as it is."""
    if "://" not in address:
        address = f"{urlsplit(like).scheme or 'http'}://{address}"
    parts = urlsplit(address)
    try:
        is_good = parts.scheme in ("http", "https") and parts.hostname and (parts.port is None or parts.port > 0)
    except ValueError:
        is_good = False
    if not is_good:
        raise GodwitError(f"{address!r} is not an address of a broker's HTTP: it must be host:port, such as {HTTP}")
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"


def _said(error: Any, url: str) -> str:
    """The error message of the broker."""
    import json

    hint = "\nAuthenticate with --token, or with --user and --password." if error.code in (401, 403) else ""
    try:
        return f"{json.loads(error.read(2**20))['error']}{hint}"
    except (ValueError, RecursionError, TypeError, KeyError, OSError):  # a server that is not Godwit
        return f"{url}: {error.code} {error.reason}{hint}"


def _why(reason: Any) -> str:
    from ssl import SSLCertVerificationError

    if isinstance(reason, ConnectionRefusedError):
        return "connection refused\nStart a broker with `godwit serve`, or name one with --http HOST:PORT."
    if isinstance(reason, TimeoutError):
        return f"no answer in {ANSWER_S:g} s"
    if isinstance(reason, SSLCertVerificationError):
        return f"{reason.verify_message}\nName the authority to trust with --ca FILE."
    if isinstance(reason, ConnectionError):
        return "the connection was closed\nIf the broker uses TLS, add --ca FILE or use --http https://HOST:PORT."
    return getattr(reason, "strerror", None) or str(reason)
