"""The experiments of `mobile`, claim by claim."""

from collections.abc import Iterator

from godwit.reproduce import architectures, islands, relocation
from godwit.reproduce.claims import Claim, Setting

__all__ = ["claims"]


def claims(setting: Setting) -> Iterator[Claim]:
    """Every claim of the paper, in the order of their keys."""
    yield islands.replication(setting)
    yield architectures.quenching(setting)
    yield architectures.broadcast_and_multicast(setting)
    yield relocation.handing_over(setting)
    yield architectures.purging(setting)
    yield islands.ad_hoc(setting)
