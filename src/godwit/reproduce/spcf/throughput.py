"""[spcf §4.1 Fig. 3, 4]: the strategies by messages per second. Claim S2.

*Theory.* Both scenarios, with context filters in subscriptions and in publications, are measured with a matcher that
asks every filter, and with our index (`forwarding.py`). The verdict rests on the first: SPCF saves evaluations of
filters, which an index does not make. The result with our index is reported, too.

*Rules.* S2 holds if, without an index, in all four experiments:
1. SPCF is at no selectivity up to `PAPER_UP_TO` slower than ASF or GSF by more than the tolerance, and at the most
   selective filters faster than both by more than it;
2. its lead over each at the most selective filters is larger than at the least selective ones;
3. it asks fewer filters than both, and sends no more packets than GSF: counts, which no machine changes.

The tolerance is what two nets of one strategy differ by in the same run (the control, `forwarding.py`), and
`TOLERANCE_MAX` at most: a busy machine must not make the claim hold. Nor must it make the claim fail: if the two nets
differ by more than that, and whatever speaks against the claim is within their difference, the run decides nothing.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import structs

from godwit.reproduce.claims import Claim, Setting
from godwit.reproduce.figures import Look, PaperValue
from godwit.reproduce.spcf.forwarding import SCENARIOS, TWIN, Asks, ForwardingPlan, Measured, measured, ratios, spread
from godwit.reproduce.spcf.scale import ALL, AT_SOURCE, LOCALITIES, PAPERS_OWN, Scale
from godwit.reproduce.spcf.strategy_figures import LOOKS, SELECTIVITY, draw, percent
from godwit.reproduce.spcf.workload import Locality

__all__ = ["throughput"]

PAPER_UP_TO = 0.8  # selectivity of context filters in the paper's tests
TOLERANCE_MAX = 0.05
OTHERS = ("ASF", "GSF")
ASKS: tuple[Asks, ...] = ("subscriptions", "publications")
THROUGHPUT = "messages per second of work, all brokers"
FIXED = {"total": "total selectivity 10 %", "content": "content selectivity 10 %"}

Found = dict[tuple[str, str, str], list[Measured]]
"""By where context filters are, what is fixed, and the matcher."""


def throughput(setting: Setting, scale: Scale, kept: dict[str, Any]) -> Claim:
    """S2: Figures 3 and 4, both scenarios, with and without an index."""
    found = _found(setting, scale, kept)
    _draw(setting, scale, found)
    local = _local(setting, scale, kept, found["subscriptions", "content", "plain"])
    judged = {key: results for key, results in found.items() if key[2] == "plain"}
    control = max(abs(ratio - 1) for results in judged.values() for _, ratio in _judged(results, TWIN, "GSF"))
    tolerance = min(control, TOLERANCE_MAX)
    against = [why for key, results in judged.items() for why in _against(key, results, tolerance)]
    plainly = [why for key, results in judged.items() for why in _against(key, results, 0.0)]
    contexts = [context for results in judged.values() for context, _ in _judged(results, "SPCF", "GSF")]
    return Claim(
        key="S2",
        where="§4.1 Fig. 3, 4",
        claim="SPCF forwards more messages per second than ASF and GSF; its lead shrinks as context filters become "
        "less selective",
        paper="much better in all scenarios; the three come near each other at about 80 %",
        ours=";\n".join(
            f"filters in {asks}, {scenario} fixed: {_leads(results)}" for (asks, scenario, _), results in judged.items()
        )
        + f".\nJudged without an index, from {min(contexts):.0%} to {max(contexts):.0%}, with a tolerance of "
        f"{tolerance:.1%}: " + ("; ".join(against) if against else "nowhere behind, and the lead shrinks"),
        holds=not plainly,
        bound="more messages per second than ASF and than GSF at every selectivity up to "
        f"{PAPER_UP_TO:.0%} ('more'), and a lead that is smaller at the end than at the beginning; no tolerance",
        reading=f"not behind by more than {tolerance:.1%}, which is what two equal nets differed by. Plainly: "
        + ("; ".join(plainly[:3]) or "no counterexample"),
        reading_holds=not against,
        undecided=_undecided(judged, control),
        note="\n".join(_notes(setting, scale, found, control, tolerance, local)),
    )


def _found(setting: Setting, scale: Scale, kept: dict[str, Any]) -> Found:
    found: Found = {}
    runs = [
        (asks, scenario, matcher)
        for asks in ASKS
        for scenario in SCENARIOS
        for matcher in ("plain", "index")
        if matcher == "plain" or scenario in scale.indexed
    ]
    for number, (asks, scenario, matcher) in enumerate(runs):
        name = f"forwarding, context filters in {asks}, {scenario} selectivity fixed, {matcher}"

        def tell(share: float, number: int = number, name: str = name) -> None:
            setting.progress(name, (number + share) / len(runs))

        tell(0.0)
        found[asks, scenario, matcher] = kept[name] = measured(
            _plan(scale, asks, scenario, matcher), setting.seed, tell
        )
    return found


def _plan(scale: Scale, asks: Asks, scenario: str, matcher: str) -> ForwardingPlan:
    strategies = ALL if scenario == "content" else PAPERS_OWN
    return ForwardingPlan(
        size=scale.size,
        context=scale.forwarding,
        messages=scale.messages,
        rounds=scale.rounds,
        strategies=(*strategies, TWIN) if matcher == "plain" else strategies,
        matcher=matcher,
        asks=asks,
        scenario=scenario,
    )


# ---------------------------------------------------------------- the verdict


def _judged(found: list[Measured], ours: str, theirs: str, what: str = "per_s") -> list[tuple[float, float]]:
    """Ratios at the selectivities that the verdict rests on."""
    return [(context, ratio) for context, ratio in ratios(found, ours, theirs, what) if context <= PAPER_UP_TO]


def _against(key: tuple[str, str, str], found: list[Measured], tolerance: float) -> Iterator[str]:
    """What speaks against the claim."""
    where = f"filters in {key[0]}, {key[1]} fixed"
    for other in OTHERS:
        leads = _judged(found, "SPCF", other)
        for context, lead in leads:
            if lead < 1 - tolerance:
                yield f"BEHIND with {where}, at {context:.0%}: {lead:.2f} × {other}"
        if leads[0][1] <= 1 + tolerance:
            yield f"NO LEAD over {other} with {where}, at {leads[0][0]:.0%}"
        if leads[0][1] <= leads[-1][1]:
            yield f"the lead over {other} DOES NOT SHRINK with {where}"
        if max(share for _, share in _judged(found, "SPCF", other, "asked")) >= 1:
            yield f"as many FILTERS ASKED as {other} with {where}"
    if max(share for _, share in _judged(found, "SPCF", "GSF", "packets")) > 1:
        yield f"more PACKETS than GSF with {where}"


def _undecided(judged: Found, control: float) -> str:
    """Why the run decides nothing, if equal nets differ too much. What is seen in spite of that difference counts."""
    if control <= TOLERANCE_MAX or any(any(_against(key, results, control)) for key, results in judged.items()):
        return ""
    return (
        f"two equal nets differed by {control:.0%}, because other work was on the processors, and nothing speaks "
        "against the claim by more than that"
    )


def _leads(found: list[Measured], ours: str = "SPCF", theirs: Sequence[str] = OTHERS) -> str:
    """How many times as fast, at the most and at the least selective filters that are judged."""
    leads = {other: _judged(found, ours, other) for other in theirs}
    points = next(iter(leads.values()))
    return ", ".join(
        f"at {points[at][0]:.0%} " + " and ".join(f"{lead[at][1]:.2f} × {other}" for other, lead in leads.items())
        for at in (0, -1)
    )


# ---------------------------------------------------------------- what else is to be said


def _notes(setting: Setting, scale: Scale, found: Found, control: float, tolerance: float, local: str) -> Iterator[str]:
    if not setting.full:
        yield f"A quick run has {scale}."
    plain = {key: results for key, results in found.items() if key[2] == "plain"}
    indexed = {key: results for key, results in found.items() if key[2] == "index"}
    widest = max(spread(results, "SPCF", other) for results in plain.values() for other in OTHERS)
    yield (
        "The tolerance is what a second net of GSF differed by from the first, "
        f"and {TOLERANCE_MAX:.0%} at most. "
        f"Ratios found in each third of the {scale.rounds} rounds lay up to {widest:.1%} apart."
    )
    if control > TOLERANCE_MAX:
        yield f"The second net differed by {control:.0%}: the machine was busy, and leads near 1 mean nothing."
    yield from _why_even(plain, tolerance)
    fails = any(why for key, results in indexed.items() for why in _times_against(key, results, tolerance))
    leads = "; ".join(f"filters in {key[0]}, {key[1]} fixed: {_leads(results)}" for key, results in indexed.items())
    yield f"With our index the claim {'DOES NOT HOLD' if fails else 'holds, too'}: {leads}."
    yield (
        "An index takes about as long whatever it holds, so that smaller tables save no time. For each packet ASF asks "
        "one, with its clients' subscriptions and all others in it; GSF and SPCF ask two, one for clients and one for "
        "the row of the publisher's broker (and context). Work for a broker that has a message in hand, with the "
        f"index, filters in publications, content fixed: {_work(found['publications', 'content', 'index'])}."
    )
    for asks in ASKS:
        source = [
            _leads(found[asks, "content", matcher], AT_SOURCE[1], AT_SOURCE[:1]) for matcher in ("plain", "index")
        ]
        yield (
            f"Matched at the source, filters in {asks}, content fixed: without an index SPCF has {source[0]}; with it "
            f"{source[1]}."
        )
    yield local


def _times_against(key: tuple[str, str, str], found: list[Measured], tolerance: float) -> list[str]:
    """What speaks against the claim but for counts of filters, which an index does not ask."""
    return [
        f"{key}: {lead:.2f} × {other} at {context:.0%}"
        for other in OTHERS
        for context, lead in _judged(found, "SPCF", other)
        if lead < 1 - tolerance
    ]


def _why_even(plain: Found, tolerance: float) -> Iterator[str]:
    """Where SPCF has no lead over GSF though it asks less: what it pays for that."""
    even: list[str] = []
    for (asks, scenario, _), results in plain.items():
        context, lead = _judged(results, "SPCF", "GSF")[-1]
        if asks == "publications" and lead <= 1 + tolerance:
            of = {each.strategy: each for each in results if each.context == context}
            ours, theirs = of["SPCF"], of["GSF"]
            even.append(
                f"{scenario} fixed, at {context:.0%}: {ours.asked:,.0f} filters instead of {theirs.asked:,.0f}, "
                f"{ours.packets:.1f} packets instead of {theirs.packets:.1f}, {lead:.2f} × GSF"
            )
    if even:
        yield (
            "With filters in publications the least selective leave SPCF no lead over GSF, though it asks fewer "
            f"filters and sends fewer packets ({'; '.join(even)}). A profile shows what it pays instead: the "
            "publisher's filter is asked about every context, a Bloom filter is made of them, and at every hop it is "
            "asked about every context of the row."
        )


def _work(found: list[Measured]) -> str:
    """What each broker does for a packet, at the least selective filters."""
    of = {(each.strategy, each.context): each.packet_us for each in found}
    last = found[-1].context
    return ", ".join(f"{name} {of[name, last]:.0f} µs" for name in PAPERS_OWN) + f" at {last:.0%}"


# ---------------------------------------------------------------- figures


def _draw(setting: Setting, scale: Scale, found: Found) -> None:
    how = f"{scale.messages} messages, each as in the median of {scale.rounds} rounds."
    for (asks, scenario, matcher), results in found.items():
        figure, part = 3 if asks == "subscriptions" else 4, "a" if scenario == "total" else "b"
        names = PAPERS_OWN if matcher == "plain" else tuple(dict.fromkeys(each.strategy for each in results))
        draw(
            setting,
            scale,
            f"fig{figure}{part}_context_filters_in_{asks}{'' if matcher == 'plain' else '_with_index'}",
            {
                name: percent([(each.context, each.per_s) for each in results if each.strategy == name])
                for name in names
            },
            title=f"Context filters in {asks}, {FIXED[scenario]}, {'no' if matcher == 'plain' else 'with our'} index "
            f"[spcf Fig. {figure}{part}]",
            x=SELECTIVITY,
            y=THROUGHPUT,
            said=how,
            paper=[PaperValue("the three come near each other at about 80 %", x=80.0)],
        )
    for asks in ASKS:
        series, looks = {}, {}
        for matcher, said, dashes in (("plain", "no index", "-"), ("index", "index", "--")):
            results = found[asks, "content", matcher]
            for ours, theirs in (("SPCF", "ASF"), ("SPCF", "GSF"), AT_SOURCE[::-1]):
                label = f"over {theirs}, {said}"
                series[label] = percent(ratios(results, ours, theirs))
                look = LOOKS[theirs]
                colour = look.colour if ours == "SPCF" else "#d08a00"
                looks[label] = structs.replace(look, colour=colour, dashes=dashes)
        draw(
            setting,
            scale,
            f"lead_context_filters_in_{asks}",
            series,
            title=f"Lead of SPCF, context filters in {asks}, {FIXED['content']}",
            x=SELECTIVITY,
            y="throughput of SPCF / of the other",
            said=f"{how} Over ASF and GSF: SPCF at every hop; over GSF at source: SPCF at source.",
            looks=looks,
            logarithmic="y",
            level=1.0,
        )


def _local(setting: Setting, scale: Scale, kept: dict[str, Any], plain: list[Measured]) -> str:
    """Beyond the paper: Figure 3 when clients of similar contexts are near each other. [spcf §4.3]"""
    found: dict[Locality, list[Measured]] = {"none": plain}
    others = [locality for locality in LOCALITIES if locality != "none"]
    for number, locality in enumerate(others):

        def tell(share: float, number: int = number, locality: Locality = locality) -> None:
            setting.progress(f"forwarding, {LOCALITIES[locality]}", (number + share) / len(others))

        plan = structs.replace(
            _plan(scale, "subscriptions", "content", "plain"), strategies=("GSF", "SPCF"), locality=locality
        )
        found[locality] = kept[f"forwarding, {LOCALITIES[locality]}"] = measured(plan, setting.seed, tell)
    dashes: dict[Locality, str] = {"none": "-", "contexts": "--", "interests": ":"}
    draw(
        setting,
        scale,
        "fig3b_with_locality",
        {
            f"{name}, {LOCALITIES[locality]}": percent(
                [(each.context, each.per_s) for each in results if each.strategy == name]
            )
            for name in ("GSF", "SPCF")
            for locality, results in found.items()
        },
        title=f"Context filters in subscriptions, {FIXED['content']}, no index, with locality [spcf §4.3]",
        x=SELECTIVITY,
        y=THROUGHPUT,
        said=f"{scale.messages} messages, each as in the median of {scale.rounds} rounds.",
        looks=_local_looks(dashes),
    )
    leads = ", ".join(f"{_most(results)} with {LOCALITIES[locality]}" for locality, results in found.items())
    return f"Beyond the paper: the lead over GSF, filters in subscriptions, content fixed, no index, is {leads}."


def _local_looks(dashes: dict[Locality, str]) -> dict[str, Look]:
    return {
        f"{name}, {LOCALITIES[locality]}": structs.replace(LOOKS[name], dashes=dash)
        for name in ("GSF", "SPCF")
        for locality, dash in dashes.items()
    }


def _most(found: list[Measured]) -> str:
    (first, most), *_ = ratios(found, "SPCF", "GSF")
    return f"{most:.1f} × at {first:.0%}"
