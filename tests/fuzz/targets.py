"""All targets: how a run of each begins, and what share of the cases it gets."""

from collections.abc import Callable
from functools import partial

from tests.fuzz.connections import CONNECTIONS
from tests.fuzz.decoders import DECODERS
from tests.fuzz.documents import DOCUMENTS
from tests.fuzz.hostile_peers import CONFIGS, HostilePeer
from tests.fuzz.spoiling import Case

__all__ = ["SHARES", "TARGETS"]


def _hostile(peer: str, config: str) -> Case:
    return HostilePeer(peer, config).case


TARGETS: dict[str, Callable[[], Case]] = {
    **{name: partial(lambda case: case, case) for name, case in {**DECODERS, **DOCUMENTS}.items()},
    **CONNECTIONS,
    **{
        f"hostile {peer}, {config}": partial(_hostile, peer, config)
        for peer in ("neighbour", "client")
        for config in CONFIGS
    },
}
SLOW = ("snapshot", "HTTP requests", "WebSocket", "team changes", "ad hoc bundles", "tokens")
SHARES = {name: 2 if name in SLOW else 8 if "hostile" in name else 10 for name in TARGETS}
