"""[motion §6 Fig. 5]: the share of needless forwarding, and the load of a peer. Claims M3 and M6.

*Rules.*
1. M3 is decided for SPEAR's tier, which is the paper's: at every size negative residues are at most `NEGATIVE_MAX` of
   what is matched, positive ones are at least `RATIO_MIN` times as many, and no event is lost. What our own filters do
   as bottom tier stands beside it and decides nothing.
2. The bounds are twice the paper's largest share, and two thirds of its ratio of three to one: its profiles are not
   known, so more than the order of magnitude cannot be asked for.
"""

from collections.abc import Callable, Mapping, Sequence

from godwit.reproduce.claims import Claim, Setting
from godwit.reproduce.figures import Look, lines
from godwit.reproduce.motion.residues import PEERS, ProfileWorkload, Residues, residues
from godwit.reproduce.motion.run_sizes import RunSizes

__all__ = ["NEGATIVE_MAX", "RATIO_MIN", "Rows", "load_on_a_peer", "measured_residues", "residue_shares"]

NEGATIVE_MAX = 0.072
RATIO_MIN = 2.0
PAPER: dict[int, tuple[int, float, float, float]] = {  # Fig. 5: matched, residues, negative, positive
    5_000: (200, 0.06, 0.027, 0.033),
    10_000: (520, 0.12, 0.031, 0.089),
    15_000: (850, 0.122, 0.032, 0.102),
    20_000: (1_100, 0.153, 0.036, 0.118),
}
PAPER_NOTIFICATIONS, MINUTES = 66, 60
LOOKS = {
    "SPEAR's tier": Look(colour="#c1440e", marker="o"),
    "our filters": Look(colour="#1b6ca8", marker="s"),
    "the paper": Look(colour="0.4", marker="D", dashes="--"),
}

Rows = Mapping[int, tuple[Residues, Residues]]
"""By number of subscriptions, what SPEAR's tier and ours did."""


def measured_residues(setting: Setting, scale: RunSizes) -> tuple[Rows, Residues]:
    """All rows of Fig. 5; and SPEAR's row of the smallest size with an operator that no tier can translate."""

    def tell(what: str, share: float) -> None:
        setting.progress(f"residues, {what}", 0.9 * share)

    workload = ProfileWorkload(setting.seed, scale.subscriptions[-1], scale.publications)
    found = residues(workload, scale.subscriptions, tell)
    setting.progress("residues, with an operator that no tier knows", 0.9)
    smallest = scale.subscriptions[0]
    other = ProfileWorkload(setting.seed, smallest, scale.publications, has_unknown=True)
    unknown, _ = residues(other, [smallest], lambda *_: None)[smallest]
    return found, unknown


def _ratio(row: Residues) -> float:
    return row.positive / max(row.negative, 1)


def _range(rows: Sequence[Residues], value: Callable[[Residues], float], form: str) -> str:
    low, high = (format(extreme(value(row) for row in rows), form) for extreme in (min, max))
    return low if low == high else f"{low} to {high}"


def residue_shares(setting: Setting, rows: Rows, unknown: Residues) -> Claim:
    """M3: negative residues are few, and positive ones more."""
    spear, ours = [pair[0] for pair in rows.values()], [pair[1] for pair in rows.values()]
    _draw(setting, rows)
    said = [
        f"{name}: {_range(tier, lambda row: row.share(row.negative), '.1%')} negative, "
        f"{_range(tier, lambda row: row.share(row.positive), '.1%')} positive, "
        f"{_range(tier, _ratio, '.1f')} to one"
        for name, tier in (("SPEAR's tier", spear), ("our filters", ours))
    ]
    lost = sum(row.lost for row in (*spear, *ours))
    is_small = all(row.share(row.negative) <= NEGATIVE_MAX for row in spear)
    holds = is_small and all(_ratio(row) >= RATIO_MIN for row in spear) and not lost and spear[0].matched > 0
    return Claim(
        key="M3",
        where="§6 Fig. 5",
        claim="with 5,000 to 20,000 subscriptions and 1,000 publications negative residues are a small share of what "
        "is matched, and positive ones outnumber them about three to one",
        paper="2.7 % to 3.6 % negative, 3.3 % to 11.8 % positive, three to one",
        ours=f"{min(rows):,} to {max(rows):,} subscriptions; {'; '.join(said)}; {lost} lost",
        holds=holds,
        bound=f"at every size: negative residues at most {NEGATIVE_MAX:.1%} (twice the paper's largest share), "
        f"positive ones at least {RATIO_MIN:g} times as many ('three to one'), and no event lost",
        note=f"{_table(rows)}\n"
        "A residue is a pair of an event and a subscription that the subscriber has to decide, as the translation is "
        "not exact for it: the one reading in which the paper's columns add up. The paper does not print its profiles; "
        "ours, and the forms of subscriptions, are described in profiles.py and profile_queries.py. The claim holds if "
        f"negative residues are at most {NEGATIVE_MAX:.1%} in SPEAR's tier and positive ones {RATIO_MIN:g} times as "
        "many. In SPEAR's tier most negative ones come of $all$, of which SSL can only say that one occurrence fits; "
        "our filters say it of all values, and are left with conditions on one element that are met by two. An "
        "operator that no tier can translate ($ieq$) in one of eight subscriptions to artefacts makes "
        f"{unknown.share(unknown.negative):.1%} of what SPEAR's tier matches negative: as §5 says, such operators must "
        "be rare, or the middleware be taught them.",
    )


def _table(rows: Rows) -> str:
    """The columns of Fig. 5, ours beside the paper's."""
    lines = [f"{'total':>7}  {'tier':<8}{'matched':>8}{'of subs.':>9}{'res.':>8}{'- res.':>8}{'+ res.':>8}"]
    for size, tiers in rows.items():
        for row in tiers:
            shares = (row.negative + row.positive, row.negative, row.positive)
            cells = "".join(f"{row.share(count):>8.1%}" for count in shares)
            lines.append(f"{size:>7,}  {row.tier:<8}{row.matched:>8,}{row.matched_subscriptions:>9,}{cells}")
        if size in PAPER:
            matched, *paper = PAPER[size]
            lines.append(f"{size:>7,}  {'paper':<8}{matched:>8,}{'':>9}{''.join(f'{share:>8.1%}' for share in paper)}")
    return "\n".join(lines)


def _draw(setting: Setting, rows: Rows) -> None:
    series = {
        "SPEAR's tier": [(size, 100 * pair[0].share(pair[0].negative)) for size, pair in rows.items()],
        "our filters": [(size, 100 * pair[1].share(pair[1].negative)) for size, pair in rows.items()],
        "the paper": [(size, 100 * PAPER[size][2]) for size in rows if size in PAPER],
    }
    lines(
        setting.folder,
        "residues",
        {name: points for name, points in series.items() if points},
        title="Negative residues: forwarded, and discarded by the subscriber",
        x="subscriptions",
        y="% of what is matched",
        y_range=(0.0, None),
        looks=LOOKS,
        caption="Artefact profiles published, subscriptions drawn from profiles of users, communities and artefacts. "
        "Each pair that a tier forwards is decided by the exact test. [motion Fig. 5]",
        seed=setting.seed,
    )


def load_on_a_peer(rows: Rows, publications: int) -> Claim:
    """M6: the notifications of a peer in an hour, and the discarded ones."""
    size = max(rows)
    spear, ours = rows[size]

    def an_hour(count: int) -> float:
        return count * MINUTES / PEERS

    paper_matched, _, paper_negative, _ = PAPER[20_000]
    follows = paper_matched * MINUTES / PEERS
    discarded = [spear.discarded / max(spear.notifications, 1), ours.discarded / max(ours.notifications, 1)]
    said = [
        f"{name} {an_hour(row.notifications):,.0f} notifications an hour, {an_hour(row.discarded):,.1f} discarded "
        f"({share:.1%})"
        for name, row, share in (("SPEAR's tier:", spear, discarded[0]), ("our filters:", ours, discarded[1]))
    ]
    return Claim(
        key="M6",
        where="§6",
        claim="1,000 events a minute among 1,000 peers with 20 subscriptions each: 66 notifications an hour for a "
        "peer, of which 2 to 3 are discarded; the load is negligible",
        paper="66 an hour, 2 to 3 discarded (3.16 %)",
        ours=f"{size:,} subscriptions, {publications:,} events a minute; {'; '.join(said)}",
        bound=f"66 notifications an hour follow from the paper's own figures, and at most {NEGATIVE_MAX:.1%} of ours "
        "are discarded",
        holds=follows == PAPER_NOTIFICATIONS and max(discarded) <= NEGATIVE_MAX and spear.matched > 0,
        note=f"What follows from the paper's figures: {paper_matched:,} matches a minute are "
        f"{paper_matched * MINUTES:,} an hour and {follows:.0f} for each of {PEERS:,} peers, if every minute is like "
        f"that one and a match of a subscription is a notification. {paper_negative:.1%} of them, the share at 20,000, "
        f"are {follows * paper_negative:.1f}; 3.16 %, its mean share, are {follows * 0.0316:.1f}. 1,000 events a "
        f"minute are 60,000 an hour, so a peer is told of one event in {60_000 / follows:,.0f}. We count an event once "
        "for a peer, however many of its subscriptions match. Our subscriptions match "
        f"{spear.matched / (size * publications) / (paper_matched / 20_000_000):.0f} times as often as the paper's. "
        f"The claim holds if at most {NEGATIVE_MAX:.1%} are discarded.",
    )
