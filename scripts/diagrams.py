"""`make diagrams`: the drawn pictures of the documentation, each from what it shows.

| picture | made from |
|---|---|
| `relocation.svg` | the golden transcript of a client that moves: every message in it was sent by a broker machine |
| `three_brokers.svg` | the configuration files in examples/three |
| `arrival.svg` | the table `TRANSITIONS` of `mobility/arrival.py` |
| `data_flow.svg` | drawn by hand; its commands are tested in the guide of the pipeline |

A test draws them again and compares.
"""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from godwit.mobility.arrival import TRANSITIONS, Phase
from scripts.svg import ACCENT, FILL, INK, PAPER, QUIET, WARM, WARM_FILL, Drawing, Point

ROOT = Path(__file__).resolve().parents[1]
IMAGES = ROOT / "docs" / "images"


class Sent(NamedTuple):
    """A message from one party to another."""

    at_s: float
    source: str
    target: str
    text: str


# ---- a relocation --------------------------------------------------------------------------------------------------

TRANSCRIPT = ROOT / "tests" / "transcripts" / "moving_relocate_tree.txt"
FROM_S, TO_S = 2.5, 3.6
PARTIES = {
    "C": "client C",
    "b3": "broker b3",
    "b1": "broker b1",
    "b2": "broker b2",
    "b4": "broker b4",
    "P": "publisher P",
}
CLIENTS = {"C", "P"}
NOTES = {
    2.5: "C disconnects from b1. Its session stays there and queues events.",
    3.5: "C connects to b3 and names the broker that has its session. b3 asks for the session along the overlay.",
    3.53: "b1 replays the session, with all events that C has not acknowledged. b3 holds newer events back until then.",
    3.55: "The session is at b3. C receives each event once, in order.",
}


def messages(transcript: str) -> Iterator[Sent]:
    """The messages of a transcript, in order, as far as they belong into the picture."""
    at_s, broker = 0.0, ""
    for line in transcript.splitlines():
        if head := re.match(r"([\d.]+) (\w+) (?:Heard\('(\w+)#\d+', (.*)\))?", line):
            at_s, broker = float(head[1]), head[2]
            if head[3]:
                yield Sent(at_s, head[3], broker, head[4])
        elif effect := re.match(r"    (Send|Tell)\('(\w+)(?:#\d+)?', (.*)\)$", line):
            yield Sent(at_s, broker, effect[2], effect[3])


def caption(text: str) -> str:
    """A message in a few words, or nothing if it is not shown."""
    found = re.match(r"(?:Frame\(\d+, \d+, |Request\(\d+, )?(\w+)", text)
    kind = found[1] if found else ""
    numbers = re.findall(r"Event P/(\d+)|sequence=(\d+)", text)
    events = ", ".join(first or second for first, second in numbers)
    return {
        "Publish": f"Publish: event {events}",
        "Attach": "Attach: session at b1",
        "Attached": "Attached: 4 replayed",
        "Relocate": "Relocate",
        "Replay": f"Replay: events {events}",
        "Delivery": f"Delivery: event {events}",
    }.get(kind, "")


def relocation() -> Drawing:
    """The sequence of messages when a client moves from one broker to another."""
    sent = [each for each in messages(TRANSCRIPT.read_text(encoding="utf-8")) if FROM_S <= each.at_s <= TO_S]
    rows: list[Sent | str] = []
    notes = dict(NOTES)
    for each in sent:
        if not (text := caption(each.text)):
            continue
        rows.extend(notes.pop(at_s) for at_s in list(notes) if at_s <= each.at_s)
        rows.append(each._replace(text=text))
    left, top, step, row_height = 90, 70, 150, 30
    drawing = Drawing(
        left * 2 + step * (len(PARTIES) - 1), top + row_height * (len(rows) + 1) + 10, "Sequence of a relocation"
    )
    place = {party: left + step * number for number, party in enumerate(PARTIES)}
    for party, x in place.items():
        drawing.line([(x, 50), (x, drawing.height - 14)], dashed=True)
        fill, stroke = (WARM_FILL, WARM) if party in CLIENTS else (FILL, ACCENT)
        drawing.box((x - 55, 16), (110, 34), PARTIES[party], fill=fill, stroke=stroke)
    for number, row in enumerate(rows):
        y = top + row_height * (number + 1)
        if isinstance(row, str):
            drawing.box((24, y - 21), (drawing.width - 48, 24), fill="#f5f5f5", stroke="#f5f5f5")
            drawing.text((36, y - 5), row, anchor="start", colour=QUIET)
            continue
        start, end = place[row.source], place[row.target]
        drawing.arrow((start, y), (end, y), colour=WARM if {row.source, row.target} & CLIENTS else ACCENT)
        drawing.label(((start + end) / 2, y - 7), row.text)
    return drawing


# ---- three brokers with TLS -----------------------------------------------------------------------------------------

LISTENERS = (
    ("native", "native, TLS", "Python clients"),
    ("mqtt", "MQTT, TLS", "MQTT devices"),
    ("http", "HTTPS", "browsers, metrics"),
)
"""Key of `[listen]`, protocol, who connects."""


def three_brokers() -> Drawing:
    """Three brokers in a row, the ports of each, and which of them dials which."""
    brokers = [tomllib.loads(path.read_text()) for path in sorted((ROOT / "examples" / "three").glob("*.toml"))]
    drawing = Drawing(1000, 330, "Three brokers with TLS on every link and listener")
    width = 240
    place = {each["broker"]["name"]: 30 + 350 * number for number, each in enumerate(brokers)}
    for each in brokers:
        name, x, listen, tls = each["broker"]["name"], place[each["broker"]["name"]], each["listen"], each["tls"]
        drawing.box(
            (x, 90), (width, 74), f"broker {name}", f"certificate {tls['certificate']}", f"trusts {tls['authorities']}"
        )
        for row, (kind, label, who) in enumerate(LISTENERS):
            y = 222 + 34 * row
            host, _, port = listen[kind].rpartition(":")
            drawing.box((x, y), (width, 28), fill=PAPER)
            drawing.text((x + 10, y + 19), port, anchor="start", bold=True)
            drawing.text((x + 56, y + 19), label, anchor="start")
            drawing.text((x + width - 8, y + 19), who, anchor="end", colour=QUIET, size=11)
        drawing.line([(x + width / 2, 164), (x + width / 2, 222)])
        drawing.label((x + width / 2 + 8, 198), f"listens on {host}", anchor="start", colour=QUIET)
        for other, address in each["neighbours"].items():
            if address:
                start, end = (x + width, place[other]) if place[other] > x else (x, place[other] + width)
                drawing.arrow((start, 127), (end, 127))
                drawing.label(((start + end) / 2, 116), "mutual TLS")
                drawing.label(((start + end) / 2, 146), f"dials {address.rpartition(':')[2]}")
    drawing.text(
        (500, 40), "Each link: both ends show a certificate with the broker's name, signed by ca.pem", colour=INK
    )
    drawing.text((500, 62), "Each client: verifies the broker's certificate with ca.pem", colour=QUIET)
    return drawing


# ---- the phases of an arrival ---------------------------------------------------------------------------------------

CENTRES: dict[Phase, Point] = {
    Phase.ASKING_WISHES: (100, 220),
    Phase.SUBSCRIBING: (310, 220),
    Phase.ASKING_SESSION: (520, 220),
    Phase.RECEIVING: (730, 220),
    Phase.FLUSHING: (940, 220),
    Phase.DONE: (1120, 220),
    Phase.SUPERSEDED: (730, 60),
    Phase.LOST: (310, 370),
}
HALF_WIDTH, HALF_HEIGHT = 68, 20


def arrival() -> Drawing:
    """The phases of an arrival, and what leads from one to the next; steps are numbered, and listed below."""
    drawing = Drawing(1210, 530, "Phases of an arrival")
    steps = list(dict.fromkeys(step for table in TRANSITIONS.values() for step in table))
    edges: dict[tuple[Phase, Phase], list[str]] = {}
    for phase, table in TRANSITIONS.items():
        for step, after in table.items():
            edges.setdefault((phase, after), []).append(str(steps.index(step) + 1))
    for (phase, after), numbers in edges.items():
        _edge(drawing, phase, after, ", ".join(numbers))
    for phase, text in ((Phase.ASKING_WISHES, "A"), (Phase.SUBSCRIBING, "B")):
        x, y = CENTRES[phase]
        drawing.arrow((x, y - 74), (x, y - HALF_HEIGHT), colour=QUIET)
        drawing.label((x, y - 80), text, colour=WARM)
    for phase, (x, y) in CENTRES.items():
        fill, stroke = (FILL, ACCENT) if TRANSITIONS[phase] else (WARM_FILL, WARM)
        at, size = (x - HALF_WIDTH, y - HALF_HEIGHT), (2 * HALF_WIDTH, 2 * HALF_HEIGHT)
        drawing.box(at, size, str(phase), fill=fill, stroke=stroke)
    legend = [("A", "begins: the client brings nothing"), ("B", "begins: the client brings what it wants")]
    legend += [(str(number + 1), str(step)) for number, step in enumerate(steps)]
    for number, (mark, text) in enumerate(legend):
        at = (440 + 380 * (number // 6), 370 + 26 * (number % 6))
        drawing.text(at, mark, anchor="start", bold=True, colour=WARM)
        drawing.text((at[0] + 20, at[1]), text, anchor="start")
    return drawing


def _edge(drawing: Drawing, phase: Phase, after: Phase, numbers: str) -> None:
    (ax, ay), (bx, by) = CENTRES[phase], CENTRES[after]
    if phase is after:
        drawing.arrow((ax - 26, ay + HALF_HEIGHT), (ax + 26, ay + HALF_HEIGHT), bend=-34)
        drawing.label((ax, ay + HALF_HEIGHT + 42), numbers, colour=WARM)
    elif ay == by:
        skips = bx - ax > 240
        start, end = (
            ((ax, ay + HALF_HEIGHT), (bx, by + HALF_HEIGHT))
            if skips
            else ((ax + HALF_WIDTH, ay), (bx - HALF_WIDTH, by))
        )
        drawing.arrow(start, end, bend=-52 if skips else 0)
        drawing.label(((ax + bx) / 2, ay + HALF_HEIGHT + 56 if skips else ay - 6), numbers, colour=WARM)
    else:
        up = by < ay
        start = (ax, ay - HALF_HEIGHT) if up else (ax, ay + HALF_HEIGHT)
        aim = (bx + max(-50, min(50, (ax - bx) / 4)), by + (HALF_HEIGHT if up else -HALF_HEIGHT))
        drawing.arrow(start, aim)
        drawing.label(((start[0] + aim[0]) / 2, (start[1] + aim[1]) / 2), numbers, colour=WARM)


# ---- brokers, the event log and Spark -------------------------------------------------------------------------------


def data_flow() -> Drawing:
    """How events get from brokers to Spark, and back."""
    drawing = Drawing(1000, 400, "Events between brokers, the event log and Spark")
    drawing.box((30, 130), (160, 90), "brokers", "publish, subscribe,", "sessions, journal")
    drawing.box((370, 40), (200, 70), "event log", "JSON lines in segments", fill=WARM_FILL, stroke=WARM)
    drawing.box((370, 240), (200, 70), "event log", "one segment per batch", fill=WARM_FILL, stroke=WARM)
    drawing.box((800, 130), (170, 90), "Spark", "match, mobility,", "your own queries")
    drawing.box((800, 316), (170, 56), "tables", "Parquet", fill=WARM_FILL, stroke=WARM)
    drawing.arrow((190, 150), (370, 75), bend=16)
    drawing.label((255, 78), "godwit sub --log")
    drawing.arrow((570, 75), (800, 150), bend=16)
    drawing.label((718, 78), 'readStream.format("godwit")')
    drawing.arrow((800, 200), (570, 275), bend=16)
    drawing.label((718, 286), 'writeStream.format("godwit")')
    drawing.arrow((370, 275), (190, 200), bend=16)
    drawing.label((255, 286), "godwit pub --log")
    drawing.arrow((885, 220), (885, 316), both=True)
    drawing.text((470, 170), "With the option broker, Spark starts", colour=QUIET)
    drawing.text((470, 190), "godwit sub and godwit pub itself.", colour=QUIET)
    drawing.text(
        (30, 352),
        "No event is lost or duplicated if any part crashes: readers keep a position",
        anchor="start",
        colour=QUIET,
    )
    drawing.text(
        (30, 372), "in the log, and the publisher keeps the number of its last event.", anchor="start", colour=QUIET
    )
    return drawing


PICTURES = {"relocation": relocation, "three_brokers": three_brokers, "arrival": arrival, "data_flow": data_flow}


def drawn() -> dict[str, str]:
    """The text of each picture, by the name of its file."""
    return {f"{name}.svg": draw().svg() for name, draw in PICTURES.items()}


if __name__ == "__main__":
    for file, text in drawn().items():
        (IMAGES / file).write_text(text, encoding="utf-8")
