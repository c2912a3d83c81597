"""How large the experiments of `pubmob` are: with the paper's parameters, or quick."""

import msgspec

__all__ = ["FULL", "QUICK", "Size"]


class Size(msgspec.Struct, frozen=True, kw_only=True):
    """How large the experiments are."""

    publishers: tuple[int, ...]
    usual: int  # publishers, unless said
    subscribers: int
    more_subscribers: tuple[int, ...]
    warmup_s: float
    duration_s: float
    proxy_s: float  # of PROXY's runs for P1: it costs nothing until publishers leave their proxies
    speed_s: float  # of the experiment with several speeds, which has a warm-up of its own
    short_s: float  # of the experiments with many subscribers or many deliveries
    overshoots: tuple[int, ...]
    overshoot_s: float
    localities: tuple[float, ...]


FULL = Size(
    publishers=(50, 100, 150, 200, 250),
    usual=50,
    subscribers=500,
    more_subscribers=(500, 2_500, 5_000),
    warmup_s=12,
    duration_s=40,
    proxy_s=100,
    speed_s=60,
    short_s=15,
    overshoots=(0, 2, 4, 5, 6, 8),
    overshoot_s=150,
    localities=(0.0, 0.5, 0.9),
)
"""The paper's parameters. How long a run lasts is ours: five seeds of 40 s see more moves than one of 120 s."""

QUICK = Size(
    publishers=(10, 20, 30),
    usual=12,
    subscribers=60,
    more_subscribers=(60, 150, 300),
    warmup_s=12,
    duration_s=100,
    proxy_s=100,
    speed_s=120,
    short_s=20,
    overshoots=(0, 2, 5, 8),
    overshoot_s=200,
    localities=(0.0, 0.9),
)
