"""docs/reference/http.md has every path that a broker answers, and every metric with what it says."""

import re
from collections.abc import Iterable, Iterator

from godwit.runtime.http import CLIENTS, ROUTES, SOCKETS
from godwit.runtime.http_events import FIELDS
from godwit.runtime.metrics import METRICS
from tests.conventions.repository import ROOT

PAGE = (ROOT / "docs" / "reference" / "http.md").read_text(encoding="utf-8")


def paths() -> Iterator[str]:
    """Each path, with its method and whom it answers."""
    for method, path, _, right in ROUTES:
        yield f"`{method} {re.sub(':[a-z]+', '', path)}` | {right}"
    for path, _ in SOCKETS:
        yield f"`GET {path}` | {CLIENTS}"


def faults(page: str, paths: Iterable[str], metrics: dict[str, str]) -> Iterator[str]:
    known = list(paths)
    for path in known:
        if f"\n| {path} |" not in page:
            yield f"{path} has no row"
    for path in re.findall(r"^\| (`(?:GET|POST) [^`]*` \| \w+)", page, re.MULTILINE):
        if path not in known:
            yield f"there is no {path}"
    for name, what in metrics.items():
        if f"\n| `{name}` | {what} |" not in page:
            yield f"{name} is not explained as in the code"
    for name in re.findall(r"^\| `(godwit_\w+)`", page, re.MULTILINE):
        if name not in metrics:
            yield f"there is no {name}"


def test_every_path_and_every_metric_is_documented() -> None:
    assert list(faults(PAGE, paths(), METRICS)) == []


def test_every_key_of_an_event_is_documented() -> None:
    assert [name for name in FIELDS if f"\n| `{name}` |" not in PAGE] == []


def test_a_missing_row_is_caught() -> None:
    page = "\n| `GET /old` | x |\n| `godwit_old` | x |\n"
    assert list(faults(page, ["`GET /new` | clients"], {"godwit_new": "y"})) == [
        "`GET /new` | clients has no row",
        "there is no `GET /old` | x",
        "godwit_new is not explained as in the code",
        "there is no godwit_old",
    ]
