"""The experiments of `motion`: publish/subscribe for mobile teamwork, XQL over three tiers.

| module | subject |
|---|---|
| `tier_claims` | claims M1 and M2: no tier loses an event; the listings and tables |
| `residue_claims` | claims M3 and M6: events that are forwarded needlessly |
| `matching_claims` | claims M4 and M5: speed, and subscriptions that expire |
| `profiles`, `profile_queries` | drawn profiles, and subscriptions to what they say |
| `residues` | what each tier forwards, and what of it is wanted |
| `random_queries` | random documents and queries |
| `run_sizes` | how large a quick and a full run are |

Nothing is simulated but M5's brokers: the tiers and matchers are asked directly. All that was measured of M3 goes into
`measured.json`.
"""

from collections.abc import Iterator

import msgspec

from godwit.reproduce.claims import Claim, Setting
from godwit.reproduce.motion.matching_claims import expired_subscriptions, thousand_publications
from godwit.reproduce.motion.residue_claims import load_on_a_peer, measured_residues, residue_shares
from godwit.reproduce.motion.run_sizes import scale_of
from godwit.reproduce.motion.tier_claims import listings, nothing_is_lost

__all__ = ["claims"]


def claims(setting: Setting) -> Iterator[Claim]:
    """Every claim of the paper, in the order of their keys."""
    scale = scale_of(setting)
    yield nothing_is_lost(setting, scale)
    yield listings()
    rows, unknown = measured_residues(setting, scale)
    kept = {"residues": [row for pair in rows.values() for row in pair], "with an unknown operator": unknown}
    (setting.folder / "measured.json").write_bytes(msgspec.json.format(msgspec.json.encode(kept)) + b"\n")
    yield residue_shares(setting, rows, unknown)
    yield thousand_publications(setting, scale)
    yield expired_subscriptions(setting, scale)
    yield load_on_a_peer(rows, scale.publications)
