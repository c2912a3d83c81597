"""How much the experiments of `spcf` measure, and the names of what they compare.

*Rules.*
1. The full run has the paper's network, clients and subscriptions. [spcf §4] How many messages and rounds it takes is
   ours: as many as make two nets of one strategy equally fast within some percent (`forwarding.py`, *control*).
2. The paper's tests end at a selectivity of about 80 %, and so do ours of forwarding.
"""

import msgspec

from godwit.reproduce.claims import Setting
from godwit.reproduce.spcf.workload import Locality, WorkloadSize

__all__ = ["ALL", "AT_SOURCE", "LOCALITIES", "PAPERS_OWN", "Scale", "scale_of"]

PAPERS_OWN = ("ASF", "GSF", "SPCF")
AT_SOURCE = ("GSF at source", "SPCF at source")
ALL = (*PAPERS_OWN, *AT_SOURCE)
LOCALITIES: dict[Locality, str] = {
    "none": "no locality",
    "contexts": "contexts near each other",
    "interests": "interests near, too",
}


class Scale(msgspec.Struct, frozen=True, kw_only=True):
    """How much is measured."""

    size: WorkloadSize
    forwarding: tuple[float, ...]  # selectivities of context filters
    routing: tuple[float, ...]
    messages: int
    rounds: int
    indexed: tuple[str, ...]  # scenarios that are measured with our index, too
    newcomers: int
    changes: int
    devices: tuple[int, int, int]

    def __str__(self) -> str:
        size = self.size
        return f"{size.brokers} brokers, {size.clients} clients, {size.clients * size.subscriptions:,} subscriptions"


FULL = Scale(
    size=WorkloadSize(),
    forwarding=(0.02, 0.1, 0.3, 0.8),
    routing=(0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.6, 0.8, 1.0),
    messages=24,
    rounds=5,
    indexed=("content",),
    newcomers=15,
    changes=24,
    devices=(100, 50, 25),
)
QUICK = Scale(
    size=WorkloadSize(brokers=12, degree=4, clients=48, subscriptions=18),
    forwarding=(0.1, 0.3, 0.8),
    routing=(0.03, 0.1, 0.2, 0.5, 1.0),
    messages=24,
    rounds=9,
    indexed=("content",),
    newcomers=20,
    changes=40,
    devices=(40, 20, 12),
)


def scale_of(setting: Setting) -> Scale:
    """What the setting asks for."""
    return FULL if setting.full else QUICK
