"""Sizes of the experiments of `motion`: in full as in the paper, or quick."""

import msgspec

from godwit.reproduce.claims import Setting

__all__ = ["RunSizes", "scale_of"]


class RunSizes(msgspec.Struct, frozen=True, kw_only=True):
    """Sizes of the experiments."""

    documents: int  # M1: each is tested against its own `queries`
    queries: int
    subscriptions: tuple[int, ...]  # M3
    publications: int
    matched_subscriptions: int  # M4
    matched_publications: int
    expiring: int  # M5: subscriptions that stay, and as many that expire
    rounds: int  # M5: how often matching is timed


FULL = RunSizes(
    documents=1_000,
    queries=20,
    subscriptions=(5_000, 10_000, 15_000, 20_000),
    publications=1_000,
    matched_subscriptions=100_000,
    matched_publications=1_000,
    expiring=5_000,
    rounds=5,
)
QUICK = RunSizes(
    documents=400,
    queries=10,
    subscriptions=(500, 1_000, 1_500, 2_000),
    publications=200,
    matched_subscriptions=5_000,
    matched_publications=200,
    expiring=1_000,
    rounds=5,
)


def scale_of(setting: Setting) -> RunSizes:
    """What the setting asks for."""
    return FULL if setting.full else QUICK
