"""Subscriptions in XPath and XQL to real documents: CAP alerts and SIRI vehicle positions.

Documents are the entries of a feed of weather alerts (CAP elements in Atom) and the vehicle activities of a SIRI
delivery, each a document of its own; those of 1 to 3 kB are taken.

*The draw is fixed.* It was written down before it was measured and is not changed to suit a result (decision 235):

1. One of 16 kinds (`KINDS`) is drawn, all alike; or, four times in a hundred, one of two that need an exact test
   (`EXACT_KINDS`). Eight kinds and one of these are what readers of alerts ask for, the others what passengers and
   operators ask for. Together they have paths, `//`, attributes, comparisons of texts and numbers, parts of texts,
   alternatives and negations.
2. A line is drawn and one of its documents, or an alert, all alike, and its values are put in. So each line has as
   many subscribers as another, however many messages it sends: people choose lines, not messages, and half of the
   messages are of idle vehicles, which have two lines of their own.
3. Thresholds are few and round: squares of 500 m, 1 km and 2 km around a vehicle, 50, 90 and 99 % of the way to a stop,
   200, 500 and 1,000 m in front of it.
4. Two thirds are XPath, one third is XQL, where XQL can say it. Everything follows from the seed.

`elsewhere` draws subscriptions of the same kinds that want nothing of these documents: names and codes that are in
none, squares 40 degrees to the east.
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
EXACT_SHARE = 0.04
XQL_SHARE = 1 / 3
EAST = 40.0
KM_LATITUDE, KM_LONGITUDE = 0.009, 0.018  # degrees, at 60 degrees north
NEAR_KM = (0.25, 0.5, 1.0)  # half a side
PERCENTAGES = (50, 90, 99)
DISTANCES = (200, 500, 1_000)  # metres
CODES_OF_STATE = 1_000  # FIPS codes of counties begin with the number of the state

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
        """So many subscriptions to these documents, or to others of their kind. (rules 1 and 2)"""
        draw = _Draw(random.Random(seed), elsewhere)
        lines: dict[str | None, list[etree._Element]] = {}
        for tree in map(etree.fromstring, self.vehicles):
            lines.setdefault(tree.findtext(f".//{{{SIRI}}}LineRef"), []).append(tree)
        groups = {ATOM: [[etree.fromstring(data)] for data in self.alerts], SIRI: list(lines.values())}
        found: list[Subscription] = []
        while len(found) < count:
            kinds = EXACT_KINDS if draw.random.random() < EXACT_SHARE else KINDS
            make, namespace = draw.random.choice(kinds)
            made = None
            while made is None:  # draw again until a document has the attribute: kinds have equal shares
                made = make(draw, draw.random.choice(draw.random.choice(groups[namespace])))
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
        return self.moved(self.random.choice(texts)) if texts else None

    def moved(self, text: str) -> str:
        """The text; elsewhere one that no document has."""
        return f"{text}-{self.random.randrange(1_000)}" if self.elsewhere else text

    def number(self, tree: "etree._Element", path: str, namespace: str) -> float | None:
        default: Any = {None: namespace}
        found = tree.findtext(path, None, default)
        return float(found) if found else None


Made = Subscription | None
Maker = Callable[[_Draw, "etree._Element"], Made]
Condition = tuple[str, str]
"""The same in XPath and in XQL."""


def _either(draw: _Draw, head: str, xpath: str, xql: str) -> Subscription:
    """In XPath or in XQL. (rule 4)"""
    full = f"{head}{xpath}"
    return Subscription("xql", xql, full) if draw.random.random() < XQL_SHARE else Subscription("xpath", full, full)


def _is(path: str, text: str | float, prefix: str = "s:") -> Condition:
    value = f"'{text}'" if isinstance(text, str) else f"{text:g}"
    return f"{_prefixed(path, prefix)} = {value}", f"{path} = {value}"


def _prefixed(path: str, prefix: str) -> str:
    return "/".join(step if ":" in step else f"{prefix}{step}" for step in path.split("/"))


def _and(conditions: list[Condition]) -> Condition:
    return " and ".join(xpath for xpath, _ in conditions), " $and$ ".join(xql for _, xql in conditions)


# ------------------------------------------------------------ vehicles


def _journey(draw: _Draw, *conditions: Condition) -> Subscription:
    xpath, xql = _and(list(conditions))
    return _either(draw, SIRI_HEAD, f"{JOURNEY}[{xpath}]", f"{XQL_JOURNEY}[{xql}]")


def line(draw: _Draw, tree: "etree._Element") -> Made:
    """All vehicles of a line."""
    found = draw.text(tree, ".//LineRef", SIRI)
    return found and _journey(draw, _is("LineRef", found))  # type: ignore[return-value]


def line_and_stop(draw: _Draw, tree: "etree._Element") -> Made:
    """Vehicles of a line at a stop."""
    found, stop = draw.text(tree, ".//LineRef", SIRI), draw.text(tree, ".//StopPointRef", SIRI)
    if not found or not stop:
        return None
    return _journey(draw, _is("LineRef", found), _is("MonitoredCall/StopPointRef", stop))


def line_in_trouble(draw: _Draw, tree: "etree._Element") -> Made:
    """Vehicles of a line that are not monitored, or not on time."""
    found = draw.text(tree, ".//LineRef", SIRI)
    if not found:
        return None
    not_monitored = ("not(s:Monitored = 'true')", "$not$ Monitored = 'true'")
    not_on_time = ("not(s:Delay = 'PT0S')", "$not$ Delay = 'PT0S'")
    return _journey(draw, _is("LineRef", found), draw.random.choice([not_monitored, not_on_time]))


def vehicle(draw: _Draw, tree: "etree._Element") -> Made:
    """One vehicle of a line, by number: numbers of vehicles are not unique."""
    found, number = draw.text(tree, ".//LineRef", SIRI), draw.number(tree, ".//VehicleRef", SIRI)
    return _journey(draw, _is("VehicleRef", number), _is("LineRef", found)) if found and number is not None else None


def stop_anywhere(draw: _Draw, tree: "etree._Element") -> Made:
    """A stop, wherever it is mentioned."""
    stop = draw.text(tree, ".//StopPointRef", SIRI)
    if not stop:
        return None
    return _either(draw, SIRI_HEAD, f"//s:StopPointRef[. = '{stop}']", f"//StopPointRef[. = '{stop}']")


def about_to_arrive(draw: _Draw, tree: "etree._Element") -> Made:
    """Vehicles that have gone most of the way to a stop."""
    stop, percentage = draw.text(tree, ".//StopPointRef", SIRI), draw.random.choice(PERCENTAGES)
    if not stop:
        return None
    progress = "ProgressBetweenStops/Percentage"
    xpath, xql = _and(
        [
            _is("MonitoredVehicleJourney/MonitoredCall/StopPointRef", stop),
            (f"{_prefixed(progress, 's:')} > {percentage}", f"{progress} $gt$ {percentage}"),
        ]
    )
    return _either(draw, SIRI_HEAD, f"/s:VehicleActivity[{xpath}]", f"VehicleActivity[{xql}]")


def destination(draw: _Draw, tree: "etree._Element") -> Made:
    """Vehicles to a destination, of which a word is known."""
    name = draw.text(tree, ".//DestinationName", SIRI)
    words = [word for word in (name or "").split() if len(word) > 3]
    if not words:
        return None
    word = draw.random.choice(words) if not draw.elsewhere else name
    return _journey(draw, (f"contains(s:DestinationName, '{word}')", f"DestinationName $contains$ '{word}'"))


def near(draw: _Draw, tree: "etree._Element") -> Made:
    """Vehicles near a place. (rule 3)"""
    lon, lat = (draw.number(tree, f".//{name}", SIRI) for name in ("Longitude", "Latitude"))
    if lon is None or lat is None:
        return None
    half = draw.random.choice(NEAR_KM)
    west = lon + draw.random.uniform(-2 * half, 0) * KM_LONGITUDE + (EAST if draw.elsewhere else 0)
    south = lat + draw.random.uniform(-2 * half, 0) * KM_LATITUDE
    east, north = west + 2 * half * KM_LONGITUDE, south + 2 * half * KM_LATITUDE
    sides = [("Longitude", ">", "$gt$", west), ("Longitude", "<", "$lt$", east)]
    sides += [("Latitude", ">", "$gt$", south), ("Latitude", "<", "$lt$", north)]
    xpath, xql = _and([(f"s:{name} {sign} {at:.5f}", f"{name} {word} {at:.5f}") for name, sign, word, at in sides])
    return _either(draw, SIRI_HEAD, f"{JOURNEY}/s:VehicleLocation[{xpath}]", f"{XQL_JOURNEY}/VehicleLocation[{xql}]")


def metres_from_stop(draw: _Draw, tree: "etree._Element") -> Made:
    """Vehicles of a line that have few metres to go to the next stop: exact, as it needs arithmetic."""
    found, distance = draw.text(tree, ".//LineRef", SIRI), draw.random.choice(DISTANCES)
    if not found:
        return None
    full = (
        f"{SIRI_HEAD}/s:VehicleActivity[s:MonitoredVehicleJourney/s:LineRef = '{found}']/s:ProgressBetweenStops"
        f"[s:LinkDistance * (100 - s:Percentage) div 100 < {distance}]"
    )
    return Subscription("xpath", full, full)


# ------------------------------------------------------------ alerts


def _alert(draw: _Draw, *conditions: Condition) -> Subscription:
    xpath, xql = _and(list(conditions))
    return _either(draw, CAP_HEAD, f"/a:entry[{xpath}]", f"entry[{xql}]")


def _area(draw: _Draw, tree: "etree._Element") -> str | None:
    """One of the areas of an alert."""
    areas = draw.text(tree, "cap:areaDesc", ATOM)
    return draw.random.choice(areas.split("; ")) if areas and not draw.elsewhere else areas


def _in_area(area: str) -> Condition:
    return f"contains(cap:areaDesc, '{area}')", f"cap:areaDesc $contains$ '{area}'"


def alert_in_area(draw: _Draw, tree: "etree._Element") -> Made:
    """Alerts for an area, of a severity."""
    area, severity = _area(draw, tree), draw.text(tree, "cap:severity", ATOM)
    return _alert(draw, _in_area(area), _is("cap:severity", severity)) if area and severity else None


def alert_in_either_area(draw: _Draw, tree: "etree._Element") -> Made:
    """Alerts for where somebody lives or works."""
    areas = (draw.text(tree, "cap:areaDesc", ATOM) or "").split("; ")
    if len(areas) < 2:
        return None
    home, work = (draw.moved(area) for area in draw.random.sample(areas, 2))
    (xpath, xql), (other_xpath, other_xql) = _in_area(home), _in_area(work)
    return _either(draw, CAP_HEAD, f"/a:entry[{xpath} or {other_xpath}]", f"entry[{xql} $or$ {other_xql}]")


def alert_not_minor(draw: _Draw, tree: "etree._Element") -> Made:
    """Alerts for an area that are not minor."""
    area = _area(draw, tree)
    return area and _alert(draw, _in_area(area), ("not(cap:severity = 'Minor')", "$not$ cap:severity = 'Minor'"))  # type: ignore[return-value]


def alert_until_day(draw: _Draw, tree: "etree._Element") -> Made:
    """Alerts for an area that end on a day."""
    area, end = _area(draw, tree), draw.text(tree, "cap:expires", ATOM)
    if not area or not end:
        return None
    day = end.partition("T")[0]
    return _alert(draw, _in_area(area), (f"starts-with(cap:expires, '{day}')", f"cap:expires $startsw$ '{day}'"))


def alert_by_code(draw: _Draw, tree: "etree._Element") -> Made:
    """Alerts for a code of an area, FIPS or UGC, wherever it is mentioned."""
    codes = draw.text(tree, "cap:geocode/value", ATOM)
    if not codes:
        return None
    code = draw.random.choice(codes.split()) if not draw.elsewhere else codes
    return _either(draw, CAP_HEAD, f"//a:value[contains(., '{code}')]", f"//value[. $contains$ '{code}']")


def alert_of_state(draw: _Draw, tree: "etree._Element") -> Made:
    """Alerts of a state, which their link names."""
    link: Any = tree.find(f"{{{ATOM}}}link")
    state = draw.moved(link.get("href").partition("?x=")[2][:2])
    return _alert(draw, (f"contains(a:link/@href, '?x={state}')", f"link/@href $contains$ '?x={state}'"))


def alert_by_state_number(draw: _Draw, tree: "etree._Element") -> Made:
    """Alerts for one county of a state, by the numbers of its counties."""
    code = draw.number(tree, f"{{{CAP}}}geocode/value", ATOM) if _has_one_code(tree) else None
    if code is None:
        return None
    low = code // CODES_OF_STATE * CODES_OF_STATE + (1e6 if draw.elsewhere else 0)
    xpath = f". > {low:.0f} and . < {low + CODES_OF_STATE:.0f}"
    xql = f". $gt$ {low:.0f} $and$ . $lt$ {low + CODES_OF_STATE:.0f}"
    return _either(draw, CAP_HEAD, f"/a:entry/cap:geocode/a:value[{xpath}]", f"entry/cap:geocode/value[{xql}]")


def _has_one_code(tree: "etree._Element") -> bool:
    return (tree.findtext(f"{{{CAP}}}geocode/{{{ATOM}}}value") or "").isdigit()


def alert_of_kind(draw: _Draw, tree: "etree._Element") -> Made:
    """Alerts of a kind, how urgent and how certain."""
    names = ("cap:event", "cap:urgency", "cap:certainty")
    texts = [draw.text(tree, name, ATOM) for name in names]
    return _alert(draw, *[_is(name, text) for name, text in zip(names, texts, strict=True) if text])


def alert_with_polygon(draw: _Draw, tree: "etree._Element") -> Made:
    """Alerts for an area that have a polygon: exact, as it asks for the length of a text."""
    area = _area(draw, tree)
    if not area:
        return None
    full = f"{CAP_HEAD}/a:entry[contains(cap:areaDesc, '{area}') and string-length(cap:polygon) > 0]"
    return Subscription("xpath", full, full)


KINDS: list[tuple[Maker, str]] = [
    *((make, SIRI) for make in (line, line_and_stop, line_in_trouble, vehicle, stop_anywhere, about_to_arrive)),
    *((make, SIRI) for make in (destination, near)),
    *((make, ATOM) for make in (alert_in_area, alert_in_either_area, alert_not_minor, alert_until_day)),
    *((make, ATOM) for make in (alert_by_code, alert_of_state, alert_by_state_number, alert_of_kind)),
]
"""What subscriptions want, with equal shares, and the namespace of their documents."""

EXACT_KINDS: list[tuple[Maker, str]] = [(metres_from_stop, SIRI), (alert_with_polygon, ATOM)]
"""The same of those that no filter says, of which there are few."""
