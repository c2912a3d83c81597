"""Assessment of a placement of brokers from tallies: coverage, hand-overs, and the load of each broker.

*Rules.*
1. Shares refer to used fixes: those that cleaning has left out do not count.
2. A rate per hour refers to the whole time of the trace, a rate per client to the hours in which clients were observed.
3. Load is predicted from the clients in the trace: if there will be more, multiply.
"""

import msgspec

from godwit.errors import PipelineError
from godwit.pipeline.mobility.cells import BrokerPlacement
from godwit.pipeline.mobility.globe import DEGREE_M
from godwit.planning.movement_tallies import HOUR_S
from godwit.planning.trace_readers import Tallies

__all__ = ["Assessment", "BrokerLoad", "Gap", "Pair", "Rates", "assess"]

GAPS_MAX = 10
PAIRS_MAX = 200


class Rates(msgspec.Struct, frozen=True, kw_only=True):
    """The rates of clients."""

    events_per_s: float = 1.0  # that a client publishes
    wanted: float = 0.1  # share of all events that a client receives


class Gap(msgspec.Struct, frozen=True, kw_only=True):
    """A cell with clients and without a broker in range."""

    lon: float
    lat: float
    fixes: int
    share: float  # of all used fixes


class BrokerLoad(msgspec.Struct, frozen=True, kw_only=True):
    """One broker: its share of the trace, and its expected load."""

    broker: str
    lon: float
    lat: float
    radius_m: float
    within: float  # share of fixes in its area
    served: float  # share of fixes at which it is the nearest
    clients_mean: float
    clients_peak: int  # at most at once (`movement_tallies.py`, rule 3)
    published_per_s: float  # by its clients, at the peak
    delivered_per_s: float  # to its clients, at the peak


class Pair(msgspec.Struct, frozen=True, kw_only=True):
    """Two brokers between which clients move."""

    a: str
    b: str
    there: int  # from a to b
    back: int
    clients: int  # that went there, or back, and are counted twice if they did both
    share: float  # of all moves

    @property
    def moves(self) -> int:
        """In both directions."""
        return self.there + self.back


class Assessment(msgspec.Struct, frozen=True, kw_only=True):
    """The assessment of a placement."""

    fixes: int
    left_out: dict[str, int]
    unread: int
    clients: int
    hours: float
    observed_hours: float
    covered: float
    gap_cell_m: int  # side of a cell of `gaps`
    gaps: tuple[Gap, ...]  # the largest first
    handovers: int
    returns: int  # moves after a long silence
    moves_per_hour: float
    moves_per_client_hour: float
    busiest_hour_s: int  # start of the hour with most moves, in seconds since 1970
    busiest_hour_moves: int
    pairs: tuple[Pair, ...]  # those with most moves first
    brokers: tuple[BrokerLoad, ...]
    begins_s: float
    ends_s: float


def assess(tallies: Tallies, unread: int, placement: BrokerPlacement, cell_degrees: float, rates: Rates) -> Assessment:
    """The assessment from the tallies of a whole trace."""
    used = int(_total(tallies, "used"))
    left_out = {reason: int(tally.total) for (what, reason, _), tally in sorted(tallies.items()) if what == "left_out"}
    if not used:
        raise PipelineError(f"there is no position that can be used: {left_out or 'the trace is empty'}")
    moment = tallies["at_s", "", ""]
    span_s = max(moment.most - moment.least, 1.0)
    observed_hours = _total(tallies, "observed_s") / HOUR_S
    pairs = _pairs(tallies)
    moves = sum(pair.moves for pair in pairs)
    hours = {int(hour): int(tally.total) for (what, hour, _), tally in tallies.items() if what == "moves_in_hour"}
    busiest = max(sorted(hours), key=lambda hour: hours[hour], default=int(moment.least // HOUR_S))
    return Assessment(
        fixes=used,
        left_out=left_out,
        unread=unread,
        clients=int(_total(tallies, "client")),
        hours=round(span_s / HOUR_S, 2),
        observed_hours=round(observed_hours, 2),
        covered=_share(_sum(tallies, "served"), used),
        gap_cell_m=round(cell_degrees * DEGREE_M),
        gaps=_gaps(tallies, placement, used),
        handovers=int(_sum(tallies, "handover")),
        returns=int(_sum(tallies, "return")),
        moves_per_hour=round(moves * HOUR_S / span_s, 2),
        moves_per_client_hour=round(moves / observed_hours, 3) if observed_hours else 0.0,
        busiest_hour_s=busiest * HOUR_S,
        busiest_hour_moves=hours.get(busiest, 0),
        pairs=tuple(pairs[:PAIRS_MAX]),
        brokers=_loads(tallies, placement, used, span_s, rates),
        begins_s=moment.least,
        ends_s=moment.most,
    )


def _total(tallies: Tallies, what: str, a: str = "", b: str = "") -> float:
    tally = tallies.get((what, a, b))
    return 0.0 if tally is None else tally.total


def _sum(tallies: Tallies, what: str) -> float:
    return sum(tally.total for key, tally in tallies.items() if key[0] == what)


def _share(part: float, whole: float) -> float:
    return round(part / whole, 4)


def _gaps(tallies: Tallies, placement: BrokerPlacement, used: int) -> tuple[Gap, ...]:
    missed = [(tally.total, cell) for (what, cell, _), tally in tallies.items() if what == "missed"]
    found = []
    for fixes, cell in sorted(missed, reverse=True)[:GAPS_MAX]:
        lon, lat = placement.cells.centre(cell)
        found.append(Gap(lon=round(lon, 6), lat=round(lat, 6), fixes=int(fixes), share=_share(fixes, used)))
    return tuple(found)


def _pairs(tallies: Tallies) -> list[Pair]:
    moves: dict[tuple[str, str], list[int]] = {}
    for (what, a, b), tally in tallies.items():
        if what in ("handover", "return", "mover"):
            counts = moves.setdefault((min(a, b), max(a, b)), [0, 0, 0])
            counts[2 if what == "mover" else int(a > b)] += int(tally.total)
    every = max(sum(there + back for there, back, _ in moves.values()), 1)
    found = [
        Pair(a=a, b=b, there=there, back=back, clients=clients, share=_share(there + back, every))
        for (a, b), (there, back, clients) in moves.items()
    ]
    return sorted(found, key=lambda pair: (-pair.moves, pair.a, pair.b))


def _loads(
    tallies: Tallies, placement: BrokerPlacement, used: int, span_s: float, rates: Rates
) -> tuple[BrokerLoad, ...]:
    peaks: dict[str, float] = {}
    in_slots: dict[str, float] = {}
    for (what, broker, slot), tally in tallies.items():
        if what == "present":
            peaks[broker] = max(peaks.get(broker, 0.0), tally.total)
            in_slots[slot] = in_slots.get(slot, 0.0) + tally.total
    clients_max = min(max(in_slots.values(), default=0.0), _total(tallies, "client"))
    all_events_per_s = clients_max * rates.events_per_s
    found = []
    places = zip(placement.brokers, placement.lons, placement.lats, placement.radii_m, strict=True)
    for broker, lon, lat, radius_m in places:
        peak = peaks.get(broker, 0.0)
        found.append(
            BrokerLoad(
                broker=broker,
                lon=lon,
                lat=lat,
                radius_m=radius_m,
                within=_share(_total(tallies, "within", broker), used),
                served=_share(_total(tallies, "served", broker), used),
                clients_mean=round(_total(tallies, "stay_s", broker) / span_s, 2),
                clients_peak=int(peak),
                published_per_s=round(peak * rates.events_per_s, 2),
                delivered_per_s=round(peak * rates.wanted * all_events_per_s, 2),
            )
        )
    return tuple(found)
