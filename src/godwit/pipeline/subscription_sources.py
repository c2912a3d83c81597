"""Sources of a stream's subscriptions: a file, a table, or a running broker, which may all change.

*Theory.* A stream requests a version before each batch, and reads the subscriptions only if that has changed. A file's
version is its metadata in the file system, a table's is that of its files. A broker has no version: its sessions and
subscriptions are requested over HTTP, at most every `every_s`, and the version is a hash of the answer.

*Rules.*
1. A version is taken before the subscriptions are read: a change in between is noticed at the next request.
2. A broker's subscription is named `client/subscription`. Its filter is bound to the client's context of that moment.
3. An answer of a broker has at most `ANSWER_MAX` bytes and `ANSWER_S` seconds.

Replace a file of subscriptions by renaming another over it: a file that is written in place may be read half-written.
"""

import base64
import hashlib
import json
import time
from collections.abc import Callable, Iterable, Mapping
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote, unquote, urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from godwit.errors import FilterError, PipelineError
from godwit.filters.filters import literals
from godwit.filters.language import parse
from godwit.filters.references import is_open
from godwit.languages import Query
from godwit.pipeline.streaming import SubscriptionSource
from godwit.pipeline.subscription_index import Wanted, routable
from godwit.pipeline.subscriptions import read_subscriptions
from godwit.pipeline.tables import files, finish

__all__ = [
    "BrokerSubscriptions",
    "FileSubscriptions",
    "FixedSubscriptions",
    "RestrictedSubscriptions",
    "named",
    "source_of",
]

ANSWER_S = 10.0
ANSWER_MAX = 64 << 20
SESSIONS_MAX = 100_000
ASK_EVERY_S = 5.0
READ_AT_MOST = 3  # attempts, if a file changes meanwhile


def source_of(said: str) -> SubscriptionSource:
    """The source of a text: `http://host:port` is a broker, everything else a file or the folder of a table."""
    return BrokerSubscriptions(said) if said.startswith(("http://", "https://")) else FileSubscriptions(said)


class FixedSubscriptions:
    """Fixed subscriptions."""

    def __init__(self, subscriptions: Mapping[str, Wanted]) -> None:
        self._subscriptions = dict(subscriptions)

    def version(self) -> str:
        return "fixed"

    def read(self) -> dict[str, Wanted]:
        return self._subscriptions


class RestrictedSubscriptions:
    """A wrapper of another source, whose filters may use only these attributes: a stream reads no others.

    `has_tests`: the stream reads whole events, so that queries may have exact tests.
    """

    def __init__(self, source: SubscriptionSource, attributes: Iterable[str], has_tests: bool = False) -> None:
        self._source, self._attributes, self._has_tests = source, frozenset(attributes), has_tests

    def version(self) -> str:
        return self._source.version()

    def read(self) -> dict[str, Wanted]:
        found = self._source.read()
        for id, wanted in found.items():
            if strange := named([wanted]) - self._attributes:
                raise PipelineError(
                    f"subscription {id} names {min(strange)}, which the stream does not read: start it again"
                )
            if isinstance(wanted, Query) and wanted.test is not None and not self._has_tests:
                raise PipelineError(
                    f"subscription {id} has an exact test, and the stream does not read whole events: start it again"
                )
        return found


def named(wanted: Iterable[Wanted]) -> set[str]:
    """The attributes that filters use."""
    return {literal.attribute for each in wanted for literal in literals(routable(each))}


class FileSubscriptions:
    """A file of subscriptions, of JSON lines or PADRES's, or the folder of a table."""

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)

    def version(self) -> str:
        if not self._path.exists():
            raise PipelineError(f"{self._path}: no such file or folder")
        if self._path.is_dir():
            finish(self._path)
        paths = files(self._path) if self._path.is_dir() else [self._path]
        noted = [
            (str(path), status.st_mtime_ns, status.st_ino, status.st_size) for path in paths for status in [path.stat()]
        ]
        return _hash(noted)

    def read(self) -> dict[str, Wanted]:
        for _ in range(READ_AT_MOST):
            before = self.version()
            found = read_subscriptions(self._path)
            if self.version() == before:
                return found
        raise PipelineError(f"{self._path} changes while it is read")


class BrokerSubscriptions:
    """The subscriptions of all clients with a session at a broker, requested over HTTP."""

    def __init__(self, url: str, every_s: float = ASK_EVERY_S, clock: Callable[[], float] = time.monotonic) -> None:
        try:
            parts = urlsplit(url)
            _ = parts.port  # imported only when needed
        except ValueError as error:
            raise PipelineError(f"not an address of a broker, such as http://host:port: {error}") from None
        self._url = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path.rstrip('/')}"
        self._headers = {"Accept": "application/json"}
        if parts.username is not None:
            pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            self._headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        self._every_s, self._clock = every_s, clock
        self._asked_at: float | None = None
        self._said: dict[str, str] = {}

    def version(self) -> str:
        now = self._clock()
        if self._asked_at is None or now - self._asked_at >= self._every_s:
            try:
                self._said = self._ask_all()
            except (KeyError, TypeError, AttributeError):
                raise PipelineError(
                    f"{self._url} does not answer as a broker does: is it a broker's HTTP port?"
                ) from None
            self._asked_at = now
        return _hash(sorted(self._said.items()))

    def read(self) -> dict[str, Wanted]:
        if self._asked_at is None:
            self.version()
        found: dict[str, Wanted] = {}
        for name, text in self._said.items():
            try:
                filter = parse(text)
            except FilterError as error:
                raise PipelineError(
                    f"subscription {name} at {self._url} has a filter that cannot be read: {error}"
                ) from None
            if is_open(filter):
                raise PipelineError(f"subscription {name} at {self._url} depends on its client's context: {text}")
            found[name] = filter
        return found

    def _ask_all(self) -> dict[str, str]:
        answer = self._ask(f"/sessions?limit={SESSIONS_MAX}")
        if answer.get("more"):
            raise PipelineError(f"{self._url} has more than {SESSIONS_MAX} sessions, the most that can be requested")
        found: dict[str, str] = {}
        for short in answer["sessions"]:
            if not short["subscriptions"]:
                continue
            session = self._ask(f"/sessions/{quote(short['client'], safe='')}", missing={"subscribed": []})
            for each in session["subscribed"]:
                found[f"{short['client']}/{each['name']}"] = str(each.get("now", each["filter"]))
        return found

    def _ask(self, path: str, missing: Any = None) -> Any:
        try:
            with build_opener(_Stay).open(Request(self._url + path, headers=self._headers), timeout=ANSWER_S) as answer:
                content = answer.read(ANSWER_MAX + 1)
        except HTTPError as error:
            if error.code == 404 and missing is not None:
                return missing
            raise PipelineError(f"{self._url}{path} answers {error.code}: {_reason(error)}") from None
        except (URLError, OSError, HTTPException, ValueError) as error:
            raise PipelineError(f"{self._url} does not answer: {getattr(error, 'reason', error)}") from None
        if len(content) > ANSWER_MAX:
            raise PipelineError(f"{self._url}{path} answers with more than {ANSWER_MAX >> 20} MiB")
        try:
            return json.loads(content)
        except (ValueError, RecursionError):
            raise PipelineError(f"{self._url}{path} does not answer with JSON: is it a broker's HTTP port?") from None


class _Stay(HTTPRedirectHandler):
    """Follows no redirect: the headers contain credentials."""

    def redirect_request(self, *about: Any) -> None:
        return None


def _reason(error: HTTPError) -> str:
    text = error.read(200).decode(errors="replace").strip()
    return text or error.reason


def _hash(data: Any) -> str:
    return hashlib.blake2b(json.dumps(data).encode(), digest_size=16).hexdigest()
