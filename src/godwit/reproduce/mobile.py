"""The experiments of `mobile`, claim by claim."""

from collections.abc import Iterator

from godwit.reproduce import architecture_claims, island_claims, relocation_claims
from godwit.reproduce.claims import Claim, Setting

__all__ = ["claims"]


def claims(setting: Setting) -> Iterator[Claim]:
    """Every claim of the paper, in the order of their keys."""
    yield island_claims.replication(setting)
    yield architecture_claims.quenching(setting)
    yield architecture_claims.broadcast_and_multicast(setting)
    yield relocation_claims.handing_over(setting)
    yield architecture_claims.purging(setting)
    yield island_claims.ad_hoc(setting)
