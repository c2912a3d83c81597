"""[rebeca §3.2, §3.3, §4] and [mobile §4.3]: relocation of sessions. Claims R2, R3 and H4.

Every mode is compared with a twin run without moves (`handoffs.py`); the table of all modes is written to
`ways_to_move.md` beside the figures.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median

from msgspec import structs

from godwit.pipeline import analytics
from godwit.reproduce.claims import Claim, Setting
from godwit.reproduce.handoffs import WAYS, HandoffFigures, blackouts, figures, run_ways, scenario_of
from godwit.reproduce.radio_handoff import draw_radio_handoff, session_waits
from godwit.reproduce.trace_tables import read
from godwit.reproduce.traced_runs import traced
from godwit.simulator.scenario import with_changes

__all__ = ["handing_over", "naive", "relocating"]

NAIVE_S = {True: 60.0, False: 30.0}  # so long that some clients come back to a broker and are given events twice
BLIND, LIT = (1.9, 2.2), 0.5  # times td, the delay between the border brokers
REDUCTIONS = ("simple", "identity", "covering", "merging")
WITH_THE_RADIO = ("relocate", "ask")  # compared with a hand-off as a step of the radio's
BY_TABLES = "junction"  # the mode in which nobody knows the old broker, as the paper has it
GRAPH = [
    "overlay.kind=random_graph",
    "overlay.brokers=12",
    "overlay.degree=3",
    "routing={family='graph'}",
    "clients.placement=anywhere",
]


def _beside_twin(setting: Setting, name: str, changes: list[str], modes: Sequence[str]) -> list[tuple[Path, Path]]:
    """Runs with relocating subscribers, one for each mode, and their common twin."""

    def trace_of(way: str) -> Path:
        scenario = scenario_of(way, full=setting.full)
        scenario = structs.replace(scenario, name=f"{scenario.name}-{name}")
        scenario = with_changes(scenario, [*changes, "run.leave=true"])
        return traced(scenario, setting.seed, setting.folder, setting.progress)[0]

    twin = trace_of("")
    return [(trace_of(mode), twin) for mode in modes]


def _left(setting: Setting, folders: Mapping[str, Path]) -> dict[str, int]:
    """By run, entries in all tables of all brokers as last written down, after there were some."""
    sizes = analytics.table_sizes(read(setting.spark(), folders)).groupBy("run").sum("last")
    found = {row.run: row["sum(last)"] for row in sizes.collect()}
    assert set(found) == set(folders), "a trace that says nothing of tables"
    return found


def relocating(setting: Setting) -> Claim:
    """R2: no loss, no duplicate, no reordering and no remaining state, under every strategy."""
    both = {
        name: _beside_twin(setting, name, [f"routing.reduction={name}"], ("relocate", BY_TABLES)) for name in REDUCTIONS
    }
    pairs = {name: pair for name, (pair, _) in both.items()}
    pairs |= {f"{name}, {BY_TABLES}": pair for name, (_, pair) in both.items()}
    [pairs["graph"]] = _beside_twin(setting, "graph", GRAPH, ("relocate",))
    found = figures(setting.spark(), pairs)
    left = _left(setting, {name: run for name, (run, _) in pairs.items()})
    told = [
        f"{name}: {each.moves} moves, {each.lost} of {each.owed:,} lost, {each.twice} twice, "
        f"{each.out_of_order} out of order, {left[name]} entries left"
        for name, each in found.items()
    ]
    holds = all(
        min(each.moves, each.owed) > 0 and not any((each.lost, each.twice, each.out_of_order, left[name]))
        for name, each in found.items()
    )
    return Claim(
        key="R2",
        where="§3.2, §4, Fig. 5",
        claim="relocation is complete, keeps sender order, duplicates nothing, needs no move-out and garbage-collects "
        "the old path; with several producers, with covering and merging",
        paper="complete, ordered, no duplicates",
        ours="; ".join(told),
        holds=holds,
        bound="under each strategy: no delivery lost, twice or out of order, and no entry left in any table "
        "('complete', 'no duplicates', 'garbage-collected')",
        note="Several publishers at different brokers; nobody disconnects cleanly. Ours, in which a client names "
        f"its old broker, and {BY_TABLES}, in which routing tables lead to it, as in the paper. The graph family is "
        "ours, and has no junction.",
    )


def naive(setting: Setting) -> Claim:
    """R3: the losses of the naive modes, and their blackout."""
    naive_ways = {way: WAYS[way] for way in ("naive, unsubscribing", "naive, leaving")}
    found = figures(setting.spark(), run_ways(setting, naive_ways, moving_s=NAIVE_S[setting.full]))
    dark = [each for each in blackouts(setting, "simple") if each.delay_s > 0]
    ratios = [each.blackout_s / each.delay_s for each in dark]
    lit = [each.blackout_s / each.delay_s for each in blackouts(setting, "flooding") if each.delay_s > 0]
    leaving, gone = found["naive, leaving"], found["naive, unsubscribing"]
    middle, flooded = (median(each) if each else float("nan") for each in (ratios, lit))
    return Claim(
        key="R3",
        where="§3.2, §3.3 Fig. 2, 3",
        claim="naive solutions lose or starve: sub-unsub-sub misses and duplicates; a new subscription is blind for "
        "2·td, with flooding it is not",
        paper="missed and doubled; 2·td",
        ours=f"leaving sessions behind: {leaving.lost:,} of {leaving.owed:,} lost, {leaving.twice} twice, "
        f"{leaving.out_of_order} out of order; unsubscribing first: {gone.lost:,} lost; blackout {middle:.2f}·td with "
        f"simple routing, {flooded:.2f}·td with flooding ({len(ratios)} and {len(lit)} moves)",
        holds=min(leaving.lost, leaving.twice, gone.lost) > 0 and BLIND[0] <= middle <= BLIND[1] and flooded < LIT,
        bound="some deliveries lost and some twice ('missed', 'duplicated'); a median blackout of "
        f"{BLIND[0]:g} to {BLIND[1]:g}·td with simple routing ('2·td'), and below {LIT:g}·td with "
        "flooding ('immediately')",
    )


def handing_over(setting: Setting) -> Claim:
    """H4: both hand-offs, also while old brokers are down; and the table of all ways."""
    two = {way: WAYS[way] for way in ("ask", "carry")}
    storms = {f"{way}, down": traces for way, traces in run_ways(setting, two, old_broker_down=True).items()}
    calm_runs = run_ways(setting)
    found = figures(setting.spark(), {**calm_runs, **storms})
    waits = session_waits(read(setting.spark(), {way: calm_runs[way][0] for way in WITH_THE_RADIO}))
    overlay = scenario_of("relocate", full=setting.full).overlay
    brokers = sum((overlay.degree or 1) ** level for level in range(overlay.height or 1))
    radio = draw_radio_handoff(setting.folder, setting.seed, waits, brokers)
    ways, down = {way: found[way] for way in WAYS}, {way: found[f"{way}, down"] for way in two}
    _write_table(setting.folder, ways)
    told = []
    for way in two:
        calm, storm = ways[way], down[way]
        told.append(
            f"{way}: {calm.lost + storm.lost} lost and {calm.twice + storm.twice} twice of "
            f"{calm.owed + storm.owed:,} in {calm.moves + storm.moves} moves, {storm.old_down} of them while the "
            f"old broker was down, new events after {_ms(calm.new_gap_s)}"
        )
    bad = sum(each.lost + each.twice for each in (*(ways[way] for way in two), *down.values()))
    return Claim(
        key="H4",
        where="§4.3",
        claim="hand-off by asking the old broker, and by carrying subscriptions and a connection log: nothing lost, "
        "nothing twice",
        paper="described; duplicates must be eliminated",
        ours="; ".join(told),
        bound="no delivery lost and none twice, also while the old broker is down",
        holds=bad == 0 and min(min(ways[way].owed, down[way].owed, down[way].old_down) for way in two) > 0,
        note="Half of the runs with brokers that crash all the time, for 4 s each. Carrying brings new events at once "
        f"and old ones late ({ways['carry'].out_of_order} out of order), as the paper says. {radio}",
    )


def _ms(seconds: float | None) -> str:
    return "never" if seconds is None else f"{seconds * 1_000:.0f} ms"


def _write_table(folder: Path, ways: dict[str, HandoffFigures]) -> None:
    """All ways side by side, as Markdown."""
    folder.mkdir(parents=True, exist_ok=True)
    heads = (
        "way",
        "moves",
        "lost",
        "twice",
        "out of order",
        "messages a move",
        "bytes a move",
        "gap",
        "gap to new ones",
    )
    lines = [f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}"]
    for way, each in ways.items():
        cells = (
            way,
            f"{each.moves}",
            f"{each.lost:,} of {each.owed:,}",
            f"{each.twice:,}",
            f"{each.out_of_order:,}",
            f"{each.control_per_move:.1f}",
            f"{each.bytes_per_move:,.0f}",
            _ms(each.gap_s),
            _ms(each.new_gap_s),
        )
        lines.append(f"| {' | '.join(cells)} |")
    (folder / "ways_to_move.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
