"""The experiments of `rebeca`, claim by claim."""

from collections.abc import Iterator

from godwit.reproduce import logical_mobility_claims, relocation_claims
from godwit.reproduce.claims import Claim, Setting

__all__ = ["claims"]


def claims(setting: Setting) -> Iterator[Claim]:
    """Every claim of the paper, in the order of their keys."""
    yield logical_mobility_claims.ploc_tables()
    yield relocation_claims.relocating(setting)
    yield relocation_claims.naive(setting)
    yield logical_mobility_claims.as_if_flooded(setting)
    yield logical_mobility_claims.cost(setting)
    yield logical_mobility_claims.walking_and_roaming(setting)
