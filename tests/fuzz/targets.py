"""All targets: how a run of each begins, and what share of the cases it gets."""

from collections.abc import Callable
from functools import partial

from tests.fuzz.decoders import DECODERS, Case
from tests.fuzz.hostile_peers import CONFIGS, HostilePeer

__all__ = ["SHARES", "TARGETS"]


def _hostile(peer: str, config: str) -> Case:
    return HostilePeer(peer, config).case


TARGETS: dict[str, Callable[[], Case]] = {
    **{name: partial(lambda case: case, case) for name, case in DECODERS.items()},
    **{
        f"hostile {peer}, {config}": partial(_hostile, peer, config)
        for peer in ("neighbour", "client")
        for config in CONFIGS
    },
}
SHARES = {name: 2 if "snapshot" in name else 8 if "hostile" in name else 10 for name in TARGETS}
