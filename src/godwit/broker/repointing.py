"""Re-pointing: an entry of a client's own, anywhere in a tree, that leads to where the client is now.

*Theory.* With the reduction `simple` each broker knows a subscription by its own id, (client, name), and by the
neighbour that told it: an arrow towards the client. When the client has moved, a message goes from its new border
broker along these arrows, and each broker adds one that leads back. Where the new way meets the old one (the junction)
the entry already exists, and so are those of all brokers beyond: what they were told for the old way stands for the
new one, too (`Simple.share`), and no message goes there. When the old border broker gives the session away it takes its
entry back, hop by hop; at the junction that ends, since the new way still stands for it. Then every arrow points to the
new place.

With any other reduction an entry between two brokers stands for many clients. It cannot be turned round for one: the
new border broker subscribes as for any client, and the old one is looked for behind all entries that cover what the
client wants, and behind all advertisements that match it.

*Rules.*
1. After each of these functions the tables are whole: each entry is told to each neighbour that it concerns.
2. Nothing is taken out of a table here: as long as the session is at the old place, events go there, too. So a message
   that is overtaken by a later move does no harm.
3. A client whose name could be the first half of an id that a broker has made has no arrows.

*Paper.* [rebeca §4.1] "B4 is aware of this by inspecting its routing table and its list of received advertisements";
"all brokers along this path update their routing tables such that they are pointing into the direction of B4"; [rebeca
§4.2] "directed towards both matching advertisements and covering filters".
*Departures.* There an arrow is turned round at once, when the fetch passes. Two fetches of one client that moves on
quickly may then cross, and the later place loses events to the earlier one. Here the old arrow goes when the old place
has given the session away, a round trip later.
"""

from collections.abc import Sequence

from godwit.broker.messages import EntryId, NodeId
from godwit.broker.placements import covers
from godwit.broker.reductions import Simple
from godwit.broker.routing import Answer
from godwit.broker.tree import TreeRouting
from godwit.filters.effort import Effort
from godwit.filters.filters import Filter

__all__ = ["arrows", "claim", "leads_on"]

LEADING_EFFORT_MAX = 200_000


def arrows(tree: TreeRouting, ids: Sequence[EntryId], besides: NodeId) -> list[NodeId]:
    """The sources, this broker's own clients among them, that have told one of these entries. (rule 3)"""
    own = [id for id in ids if not _may_be_made(id)]
    return [
        source for source, entries in tree.in_subs.items() if source != besides and any(id in entries for id in own)
    ]


def leads_on(tree: TreeRouting, filters: Sequence[Filter], besides: NodeId) -> list[NodeId]:
    """The neighbours behind which a client that wants this may be: those that have advertised it, and those that have
    told what covers it. All, if that takes too long. [rebeca §4.2]
    """
    effort = Effort(LEADING_EFFORT_MAX)
    return [n for n in tree.neighbours if n != besides and any(_leads_to(tree, n, each, effort) for each in filters)]


def _leads_to(tree: TreeRouting, neighbour: NodeId, filter: Filter, effort: Effort) -> bool:
    if effort.is_over or tree.concerns(filter, neighbour, effort):
        return True
    told = () if tree.keeps_ids else tree.in_subs[neighbour].values()
    return any(covers(each, filter, effort) for each in told) or effort.is_over


def claim(tree: TreeRouting, id: EntryId, filter: Filter, source: NodeId) -> list[Answer]:
    """`source` leads to the client, too: as a subscription, but for neighbours that know an equal entry of that id."""
    if tree.keeps_ids and id not in tree.in_subs[source]:
        others = [m for m, entries in tree.in_subs.items() if m != source and id in entries]
        for n in tree.neighbours:
            out = tree.out_subs[n]
            if n != source and isinstance(out, Simple) and tree.concerns(filter, n):
                any(out.share((source, id), (other, id), filter) for other in others if other != n)
    return tree.on_subscribe(id, filter, source)


def _may_be_made(id: EntryId) -> bool:
    """Whether a broker may have made this id: its name, a stroke and its life are the first half. (rule 3)"""
    broker, stroke, life = id[0].rpartition("/")
    return broker != "" and stroke != "" and life.isdigit()
