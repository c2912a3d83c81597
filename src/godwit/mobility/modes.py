"""The modes of moving, side by side: guarantees and costs.

*Theory.* A client says with each greeting (`Attach.mode`) how it wants to be followed. `relocate` is ours and the
default. The others are what papers describe, kept to compare with: some need a word before the client goes, some lose
events, some deliver twice or out of order, and a checker may hold each only to what it promises.

*Rules.*
1. A mode promises nothing that its row does not say; what it does promise holds under every fault that a broker's disk
   survives.
2. In the modes of publishers a session ends with its connection, and what a publisher says at the next broker does not
   wait for what it said at the last one. It may overtake itself, past a link that is slow or broken; what was overtaken
   is dropped by who gets it, on record. So they keep order and not completeness, tree or no tree.
3. Whatever the mode, a broker that a client has left keeps nothing of it for longer than the mode's row says.

*Paper.* [rebeca §3.2, §4], [mobile §4.3], [pubmob §3].
"""

from collections.abc import Iterable
from typing import Literal

import msgspec

__all__ = ["LOG_MAX", "MODES", "NOTHING", "SEEN_WINDOW", "Mode", "table"]

NOTHING = "nothing"
SEEN_WINDOW = 2**14  # numbers of a publisher, in the mode `carry`; what is further behind counts as come
LOG_MAX = 16  # brokers that a client of the mode `carry` tells its next broker about


class Mode(msgspec.Struct, frozen=True, kw_only=True):
    """One way to move."""

    paper: str
    what: str
    complete: bool  # nothing is lost that a client who stayed would have got
    unique: bool  # nothing comes twice
    ordered: bool  # one publisher's events come in their order
    cost: str  # control messages of a move over a distance of d hops in a network of n brokers
    leaves: str = NOTHING  # what stays at a broker after a move, besides a bounded memory of where the client went
    for_publishers: bool = False  # a way for who publishes; events that others receive from it are what it promises
    for_all: bool = False  # publishers may use it as subscribers do
    live: str = "yes"  # whether brokers on real sockets have it, and under which condition

    def suits(self, who: Literal["subscribers", "publishers"]) -> bool:
        """Whether such clients can move in this mode."""
        return self.for_all or self.for_publishers == (who == "publishers")


MODES: dict[str, Mode] = {
    "relocate": Mode(
        paper="rebeca §4",
        what="the session follows its client, without a clean disconnect",
        complete=True,
        unique=True,
        ordered=True,
        cost="O(d)",
        for_all=True,
    ),
    "ask": Mode(
        paper="mobile §4.3",
        what="the new broker asks the old one for the client's subscriptions, then for its session",
        complete=True,
        unique=True,
        ordered=True,
        cost="O(d), one round trip more",
    ),
    "junction": Mode(
        paper="rebeca §4",
        what="the routing tables lead to the session, from the junction of the old and the new path",
        complete=True,
        unique=True,
        ordered=True,
        cost="O(d) and a search towards publishers; without the reduction simple, also behind filters that cover",
        for_all=True,
    ),
    "named": Mode(
        paper="mobile §4.3",
        what="the client sends only its name; brokers share a table of where sessions are; then as ask",
        complete=True,
        unique=True,
        ordered=True,
        cost="O(d), one round trip more, and O(n) to announce where the session is",
        for_all=True,
    ),
    "presubscribe": Mode(
        paper="rebeca §6",
        what="as relocate; while the client is disconnected, its session is sent ahead to the predicted broker",
        complete=True,
        unique=True,
        ordered=True,
        cost="O(d), twice that if the prediction was wrong",
        for_all=True,
    ),
    "carry": Mode(
        paper="mobile §4.3",
        what="the client carries its subscriptions and the log of its connections; new events come at once",
        complete=True,
        unique=True,
        ordered=False,
        cost="O(d) for each broker in the log that has not answered yet",
    ),
    "explicit": Mode(
        paper="rebeca §1 on JEDI",
        what="the client announces its departure (move-out); without that, its session ends",
        complete=False,
        unique=True,
        ordered=True,
        cost="O(d)",
    ),
    "standard": Mode(
        paper="pubmob §3",
        what="advertisements are withdrawn when the publisher leaves, and sent again at the next broker",
        complete=False,
        unique=True,
        ordered=True,
        cost="O(n)",
        for_publishers=True,
    ),
    "prefetching": Mode(
        paper="pubmob §3",
        what="the old broker asks the predicted next broker to advertise while the publisher moves",
        complete=False,
        unique=True,
        ordered=True,
        cost="O(n) + d",
        for_publishers=True,
    ),
    "proxy": Mode(
        paper="pubmob §3",
        what="some brokers near the first one always advertise for the publisher",
        complete=False,
        unique=True,
        ordered=True,
        cost="O(distance to a proxy)",
        for_publishers=True,
    ),
    "delayed": Mode(
        paper="pubmob §3",
        what="the old broker continues to advertise for a while, so that the new tree grafts onto the old one",
        complete=False,
        unique=True,
        ordered=True,
        cost="O(d)",
        for_publishers=True,
    ),
    "prefetching+delayed": Mode(
        paper="pubmob §3.1",
        what="both: the next broker advertises while the old one still does",
        complete=False,
        unique=True,
        ordered=True,
        cost="O(d)",
        for_publishers=True,
    ),
}
"""Every mode, by the name that `Attach.mode` and scenarios use."""


def table(names: Iterable[str]) -> str:
    """Modes side by side, as they stand in the documentation."""
    lines = ["| mode | of | what happens | complete | unique | ordered | costs | leaves behind | live | paper |"]
    lines.append("|---" * 10 + "|")
    for name in names:
        mode = MODES[name]
        of = "all" if mode.for_all else "publishers" if mode.for_publishers else "subscribers"
        promises = (mode.complete, mode.unique, mode.ordered)
        said = " | ".join("yes" if promise else "no" for promise in promises)
        what, rest = mode.what, f"{mode.cost} | {mode.leaves} | {mode.live} | [{mode.paper}]"
        lines.append(f"| `{name}` | {of} | {what} | {said} | {rest} |")
    return "\n".join(lines)
