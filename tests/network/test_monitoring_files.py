"""The dashboard for Grafana and the alert rules for Prometheus name only what a broker really exposes.

Neither program is needed: metrics and labels of the expressions are compared with those of a running broker.
"""

import asyncio
import json
import re
from collections.abc import Iterable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]
from prometheus_client.parser import text_string_to_metric_families

from godwit.errors import PeerFault
from godwit.runtime.authentication import Credentials, Principal
from godwit.runtime.edge_tests import OUTCOMES
from godwit.runtime.metrics import COUNTED_FROM_0, METRICS
from godwit.runtime.security_log import CAUSES, LISTENERS
from godwit.trace import KINDS
from tests.conventions.repository import ROOT
from tests.network.http_broker import broker
from tests.network.waiting import run

DASHBOARD = ROOT / "deploy" / "grafana" / "godwit.json"
ALERTS = ROOT / "deploy" / "prometheus" / "alerts.yaml"

Samples = dict[str, set[str]]
"""The labels of each sample, by the sample's name."""

BY_PROMETHEUS = {"instance", "job"}  # labels that it adds to every sample
VALUES = {
    "listener": set(LISTENERS),
    "cause": {*CAUSES, "login", "other"},
    "state": {"attached", "away"},
    "outcome": set(OUTCOMES),
}
BRIDGE: Any = SimpleNamespace(
    is_up=True, waiting=0, connections=1, purged=0, tally=SimpleNamespace(counts={("out", "sent"): 1})
)
METRIC = re.compile(r"\b(?:godwit|process)_\w+|\bup\b")
SELECTED = re.compile(r"\b((?:godwit|process)_\w+|up)\{([^}]*)\}")
LABEL = re.compile(r'(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)"')
GROUPED = re.compile(r"\bby \(([^)]*)\)")
SHOWN = re.compile(r"\{\{\s*(?:\$labels\.)?(\w+)\s*\}\}")


class Guarded:
    """Lets nobody in without a token."""

    async def admit(self, credentials: Credentials) -> Principal:
        if not credentials.token:
            raise PeerFault("come with a token")
        return Principal(credentials.token, is_admin=credentials.token == "boss")


@pytest.fixture(scope="module")
def samples() -> Samples:
    """What a broker exposes after everything that has labels has happened at it."""
    found: Samples = {"up": set()}

    async def scene() -> None:
        async with broker("b1", {"b2": None}, authenticator=Guarded()) as (running, client):
            running.http.metrics.bridges = lambda: {"plant": BRIDGE}
            boss = {"authorization": "Bearer boss"}
            assert (await client.get("/metrics")).status_code == 401
            assert (await client.get("/metrics", headers={"authorization": "Bearer ann"})).status_code == 403
            reader, writer = await asyncio.open_connection(running.native.host, running.native.port)
            writer.write(b"\xff" * 64)
            await reader.read()
            writer.close()
            text = (await client.get("/metrics", headers=boss)).text
            for family in text_string_to_metric_families(text):
                for sample in family.samples:
                    found.setdefault(sample.name, set()).update(sample.labels)

    run(scene)
    return found


def expressions(dashboard: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Each expression of the dashboard, and the legend that stands beside it."""
    for panel in dashboard["panels"]:
        for target in panel.get("targets", ()):
            yield target["expr"], target["legendFormat"]
    for variable in dashboard["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["query"]["query"], ""


def rules(alerts: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Each expression of the alerts, and the texts that go with it."""
    for group in alerts["groups"]:
        for rule in group["rules"]:
            yield rule["expr"], " ".join(rule["annotations"].values()).replace("{{ $value }}", "")


def values(name: str, label: str, value: str) -> Iterable[str]:
    """What a label may be; where that is open, whatever it is."""
    return KINDS if (name, label) == ("godwit_records_total", "kind") else VALUES.get(label, {value})


def faults(written: Iterable[tuple[str, str]], samples: Samples) -> Iterator[str]:
    for expression, text in written:
        names = METRIC.findall(re.sub(r'"[^"]*"', '""', expression))
        for name in names:
            if name not in samples:
                yield f"there is no {name}"
        there = BY_PROMETHEUS.union(*(samples.get(name, ()) for name in names))
        for name, selector in SELECTED.findall(expression):
            for label, _, value in LABEL.findall(selector):
                if label not in BY_PROMETHEUS | samples.get(name, set()):
                    yield f"{name} has no label {label}"
                elif value not in values(name, label, value):
                    yield f"{name} has no {label} {value}"
        for label in [*SHOWN.findall(text), *re.split(r",\s*", ", ".join(GROUPED.findall(expression)))]:
            if label and label not in there:
                yield f"{expression}: no label {label}"


def test_the_dashboard_names_only_what_a_broker_exposes(samples: Samples) -> None:
    dashboard = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    assert list(faults(expressions(dashboard), samples)) == []


def test_the_alerts_name_only_what_a_broker_exposes(samples: Samples) -> None:
    alerts = yaml.safe_load(ALERTS.read_text(encoding="utf-8"))
    assert list(faults(rules(alerts), samples)) == []


def test_the_dashboard_shows_every_metric() -> None:
    used = {
        name for expression, _ in expressions(json.loads(DASHBOARD.read_text())) for name in METRIC.findall(expression)
    }
    left_out = {
        "godwit_batch_inputs",
        "godwit_journal_lag_inputs",
        "godwit_journal_losses_total",
    }  # the last is an alert
    assert {name for name in METRICS if not {name, f"{name}_bucket"} & used} == left_out


def test_panels_have_ids_of_their_own_and_do_not_overlap() -> None:
    panels = json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    cells = [
        (x, y)
        for place in (panel["gridPos"] for panel in panels)
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(set(cells)) == len(cells)
    assert max(x for x, _ in cells) < 24


def test_every_alert_says_how_bad_it_is_and_what_to_do() -> None:
    (group,) = yaml.safe_load(ALERTS.read_text(encoding="utf-8"))["groups"]
    assert len({rule["alert"] for rule in group["rules"]}) == len(group["rules"])
    for rule in group["rules"]:
        assert rule["labels"]["severity"] in ("critical", "warning")
        assert rule["annotations"].keys() == {"summary", "description"}


def test_kinds_whose_increase_is_an_alert_are_counted_from_0() -> None:
    assert set(re.findall(r'godwit_records_total\{kind="(\w+)"', ALERTS.read_text())) <= set(COUNTED_FROM_0)


def test_metrics_are_named_as_prometheus_wants_them(samples: Samples) -> None:
    for name in METRICS:
        assert re.fullmatch(r"godwit_[a-z]+(_[a-z]+)*", name)
        assert not re.search(r"_(ms|milliseconds|kb|mb|minutes|count|sum|bucket)(_|$)", name)
        assert name in samples or f"{name}_count" in samples


def test_a_name_that_no_broker_exposes_is_caught() -> None:
    planted = [
        ("rate(godwit_gone_total[5m])", ""),
        ('godwit_records_total{sort="lost"}', ""),
        ('godwit_records_total{kind="gone"}', "{{ $labels.listener }}"),
        ("sum by (instance, peer) (godwit_subscriptions)", "{{instance}}"),
    ]
    assert list(faults(planted, {"godwit_records_total": {"kind"}, "godwit_subscriptions": set()})) == [
        "there is no godwit_gone_total",
        "godwit_records_total has no label sort",
        "godwit_records_total has no kind gone",
        'godwit_records_total{kind="gone"}: no label listener',
        "sum by (instance, peer) (godwit_subscriptions): no label peer",
    ]
