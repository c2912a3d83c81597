"""Subscriptions in XPath and XQL to real documents: CAP alerts and SIRI vehicle positions.

Documents are the entries of a feed of weather alerts (CAP elements in Atom) and the vehicle activities of a SIRI
delivery, each a document of its own; those of 1 to 3 kB are taken.

A subscription is drawn by first choosing what somebody could want (`KINDS`, with their shares), then a line and one of
its vehicles, or an alert, whose values are put in. Boxes are of 50 m to 1 km, near a vehicle. Codes of areas are those
of weather zones (UGC). `elsewhere` draws subscriptions of the same kinds that want nothing of these documents: other
lines and stops, boxes 40 degrees to the east. Two thirds are XPath, one third is XQL. Everything follows from the seed.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lxml import etree

from benchmarks.workloads import ROOT

SHARED_XML = ROOT.parent / "shared" / "data" / "xml"
ATOM, CAP = "http://www.w3.org/2005/Atom", "urn:oasis:names:tc:emergency:cap:1.1"
SIRI = "http://www.siri.org.uk/siri"
BYTES_MIN, BYTES_MAX = 1_000, 3_072
EAST = 40.0
KM_LATITUDE, KM_LONGITUDE = 0.009, 0.018  # degrees, at 60 degrees north

SIRI_HEAD = f"declare namespace s = '{SIRI}'; "
CAP_HEAD = f"declare namespace a = '{ATOM}'; declare namespace cap = '{CAP}'; "
JOURNEY = "/s:VehicleActivity/s:MonitoredVehicleJourney"
XQL_JOURNEY = "VehicleActivity/MonitoredVehicleJourney"


@dataclass(frozen=True, slots=True)
class Subscription:
    """A subscription; `xpath` says the same in XPath, for lxml."""

    language: str
    text: str
    xpath: str


@dataclass(frozen=True, slots=True)
class XmlWorkload:
    """Documents as bytes."""

    alerts: list[bytes]
    vehicles: list[bytes]

    @property
    def documents(self) -> list[bytes]:
        """All documents, in an order that mixes both kinds."""
        mixed = [*self.alerts, *self.vehicles]
        random.Random(1).shuffle(mixed)
        return mixed

    def subscriptions(self, count: int, seed: int = 1, elsewhere: bool = False) -> list[Subscription]:
        """So many subscriptions to these documents, or to others of their kind."""
        draw = _Draw(random.Random(seed), elsewhere)
        lines: dict[str | None, list[etree._Element]] = {}
        for tree in map(etree.fromstring, self.vehicles):
            lines.setdefault(tree.findtext(f".//{{{SIRI}}}LineRef"), []).append(tree)
        groups = {ATOM: [[etree.fromstring(data)] for data in self.alerts], SIRI: list(lines.values())}
        makers = [make for make, _, _ in KINDS]
        shares = [share for _, _, share in KINDS]
        namespaces = {make: namespace for make, namespace, _ in KINDS}
        found: list[Subscription] = []
        while len(found) < count:
            [make] = draw.random.choices(makers, shares)
            made = make(draw, draw.random.choice(draw.random.choice(groups[namespaces[make]])))
            if made is not None:
                found.append(made)
        return found


def xml_workload(folder: Path = SHARED_XML) -> XmlWorkload | None:
    """The documents; None when they are not there."""
    alerts, vehicles = (
        folder / "cap" / "nws-us-2017-09-02.atom.xml",
        folder / "siri" / "vm-datafeed-original-corrected.xml",
    )
    if not alerts.exists() or not vehicles.exists():
        return None
    return XmlWorkload(_documents(alerts, f"{{{ATOM}}}entry"), _documents(vehicles, f"{{{SIRI}}}VehicleActivity"))


def _documents(path: Path, tag: str) -> list[bytes]:
    found = [etree.tostring(each, with_tail=False) for each in etree.parse(path).getroot().iter(tag)]
    return [data for data in found if BYTES_MIN <= len(data) <= BYTES_MAX]


class _Draw:
    """Draws values."""

    def __init__(self, generator: random.Random, elsewhere: bool) -> None:
        self.random = generator
        self.elsewhere = elsewhere

    def text(self, tree: "etree._Element", path: str, namespace: str) -> str | None:
        """A text of the document; elsewhere one that is in none."""
        default: Any = {None: namespace}
        found = [each.text for each in tree.iterfind(path.replace("cap:", f"{{{CAP}}}"), default) if each.text]
        texts = [text for text in found if "'" not in text and text.strip() == text]
        if not texts:
            return None
        text = self.random.choice(texts)
        return f"{text}-{self.random.randrange(1_000)}" if self.elsewhere else text

    def number(self, tree: "etree._Element", path: str, namespace: str) -> float | None:
        default: Any = {None: namespace}
        found = tree.findtext(path, None, default)
        return float(found) if found else None


Made = Subscription | None
Maker = Callable[[_Draw, "etree._Element"], Made]


def _either(draw: _Draw, head: str, xpath: str, xql: str) -> Subscription:
    """In XPath, or one time in three in XQL."""
    full = f"{head}{xpath}"
    return Subscription("xql", xql, full) if draw.random.random() < 1 / 3 else Subscription("xpath", full, full)


def _journey(draw: _Draw, conditions: list[tuple[str, str]]) -> Subscription:
    xpath = " and ".join(xpath for xpath, _ in conditions)
    xql = " $and$ ".join(xql for _, xql in conditions)
    return _either(draw, SIRI_HEAD, f"{JOURNEY}[{xpath}]", f"{XQL_JOURNEY}[{xql}]")


def _is(path: str, text: str) -> tuple[str, str]:
    prefixed = "/".join(f"s:{step}" for step in path.split("/"))
    return f"{prefixed} = '{text}'", f"{path} = '{text}'"


def line(draw: _Draw, tree: "etree._Element") -> Made:
    """All vehicles of a line."""
    found = draw.text(tree, ".//LineRef", SIRI)
    return found and _journey(draw, [_is("LineRef", found)])  # type: ignore[return-value]


def line_and_stop(draw: _Draw, tree: "etree._Element") -> Made:
    """Vehicles of a line at a stop."""
    found, stop = draw.text(tree, ".//LineRef", SIRI), draw.text(tree, ".//StopPointRef", SIRI)
    if not found or not stop:
        return None
    return _journey(draw, [_is("LineRef", found), _is("MonitoredCall/StopPointRef", stop)])


def line_in_trouble(draw: _Draw, tree: "etree._Element") -> Made:
    """Vehicles of a line that are not monitored, or are late."""
    found = draw.text(tree, ".//LineRef", SIRI)
    if not found:
        return None
    trouble = draw.random.choice(
        [
            ("not(s:Monitored = 'true')", "$not$ Monitored = 'true'"),
            ("s:Monitored = 'false'", "Monitored = 'false'"),
            ("s:Delay != 'PT0S'", "Delay $ne$ 'PT0S'"),
        ]
    )
    return _journey(draw, [_is("LineRef", found), trouble])


def vehicle(draw: _Draw, tree: "etree._Element") -> Made:
    """One vehicle of a line: numbers of vehicles are not unique."""
    found, number = draw.text(tree, ".//LineRef", SIRI), draw.text(tree, ".//VehicleRef", SIRI)
    return _journey(draw, [_is("VehicleRef", number), _is("LineRef", found)]) if found and number else None


def stop_anywhere(draw: _Draw, tree: "etree._Element") -> Made:
    """A stop, wherever it is mentioned."""
    stop = draw.text(tree, ".//StopPointRef", SIRI)
    if not stop:
        return None
    return _either(draw, SIRI_HEAD, f"//s:StopPointRef[. = '{stop}']", f"//StopPointRef[. = '{stop}']")


def destination(draw: _Draw, tree: "etree._Element") -> Made:
    """Vehicles to a destination, of which a part of the name is known."""
    name = draw.text(tree, ".//DestinationName", SIRI)
    if not name or len(name) < 4:
        return None
    start = draw.random.randrange(len(name) - 3)
    part = name if draw.elsewhere else name[start : start + 6].strip()
    return _journey(draw, [(f"contains(s:DestinationName, '{part}')", f"DestinationName $contains$ '{part}'")])


def box(draw: _Draw, tree: "etree._Element", of_line: bool = False) -> Made:
    """Vehicles near a place."""
    lon, lat = (draw.number(tree, f".//{name}", SIRI) for name in ("Longitude", "Latitude"))
    found = draw.text(tree, ".//LineRef", SIRI)
    if lon is None or lat is None or found is None or tree.findtext(f".//{{{SIRI}}}Monitored") != "true":
        return None  # those that are not monitored stand in few depots
    half = draw.random.choice([0.025, 0.05, 0.1, 0.25, 0.5])  # km
    west = lon + draw.random.uniform(-half, half) * KM_LONGITUDE - half * KM_LONGITUDE + (EAST if draw.elsewhere else 0)
    south = lat + draw.random.uniform(-half, half) * KM_LATITUDE - half * KM_LATITUDE
    east, north = west + 2 * half * KM_LONGITUDE, south + 2 * half * KM_LATITUDE
    sides = [("Longitude", ">", "$gt$", west), ("Longitude", "<", "$lt$", east)]
    sides += [("Latitude", ">", "$gt$", south), ("Latitude", "<", "$lt$", north)]
    xpath = " and ".join(f"s:{name} {sign} {value:.5f}" for name, sign, _, value in sides)
    xql = " $and$ ".join(f"{name} {sign} {value:.5f}" for name, _, sign, value in sides)
    line = _is("LineRef", found) if of_line else ("", "")
    start = [f"{path}[{said}]" if said else path for path, said in zip((JOURNEY, XQL_JOURNEY), line, strict=True)]
    return _either(draw, SIRI_HEAD, f"{start[0]}/s:VehicleLocation[{xpath}]", f"{start[1]}/VehicleLocation[{xql}]")


def line_in_box(draw: _Draw, tree: "etree._Element") -> Made:
    """Vehicles of a line near a place."""
    return box(draw, tree, of_line=True)


def alert_in_area(draw: _Draw, tree: "etree._Element") -> Made:
    """Alerts for a part of an area's description, of a severity."""
    area, severity = draw.text(tree, "cap:areaDesc", ATOM), draw.text(tree, "cap:severity", ATOM)
    if not area or not severity:
        return None
    part = draw.random.choice(area.split("; "))
    return _either(
        draw, CAP_HEAD, f"/a:entry[contains(cap:areaDesc, '{part}') and cap:severity = '{severity}']",
        f"entry[cap:areaDesc $contains$ '{part}' $and$ cap:severity = '{severity}']",
    )  # fmt: skip


def alert_by_code(draw: _Draw, tree: "etree._Element") -> Made:
    """Alerts of a kind for a code of an area."""
    event, codes = draw.text(tree, "cap:event", ATOM), draw.text(tree, "cap:geocode/value", ATOM)
    if not event or not codes:
        return None
    code = draw.random.choice([each for each in codes.split() if each[0].isalpha()] or [""])
    if not code:
        return None
    return _either(
        draw, CAP_HEAD, f"/a:entry[cap:event = '{event}']/cap:geocode/a:value[contains(., '{code}')]",
        f"entry[cap:event = '{event}']/cap:geocode/value[. $contains$ '{code}']",
    )  # fmt: skip


def alert_of_kind(draw: _Draw, tree: "etree._Element") -> Made:
    """Alerts of a kind, how urgent and how certain."""
    event, urgency, certainty = (draw.text(tree, f"cap:{name}", ATOM) for name in ("event", "urgency", "certainty"))
    if not event or not urgency or not certainty:
        return None
    return _either(
        draw, CAP_HEAD,
        f"/a:entry[cap:event = '{event}' and cap:urgency = '{urgency}' and cap:certainty = '{certainty}']",
        f"entry[cap:event = '{event}' $and$ cap:urgency = '{urgency}' $and$ cap:certainty = '{certainty}']",
    )  # fmt: skip


KINDS: list[tuple[Maker, str, float]] = [
    (line, SIRI, 0.05),
    (line_and_stop, SIRI, 0.15),
    (line_in_trouble, SIRI, 0.05),
    (vehicle, SIRI, 0.14),
    (stop_anywhere, SIRI, 0.10),
    (destination, SIRI, 0.02),
    (line_in_box, SIRI, 0.20),
    (box, SIRI, 0.01),
    (alert_in_area, ATOM, 0.14),
    (alert_by_code, ATOM, 0.135),
    (alert_of_kind, ATOM, 0.005),
]
"""What subscriptions want, the namespace of their documents, and their share."""
