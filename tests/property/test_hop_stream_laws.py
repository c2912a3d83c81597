"""Matching at every hop is held to the laws of matching at the source, on the same scripts.

The laws are those of `test_graph_laws.py` (GSF) and `test_spcf_laws.py` (SPCF): whatever happens to links and brokers,
deliveries are those of flooding with filtering at the edges, in order and once; tables hold what they must and no
more; what moving clients rest on holds. Routings with a planted fault break them.
"""

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from godwit.broker.bloom import BloomFilter
from godwit.broker.graph import GraphRouting
from godwit.broker.hop_stream import HopStream
from godwit.broker.messages import NodeId
from godwit.broker.routing import Answer, Forward
from godwit.broker.spcf import spcf_routing
from godwit.broker.stream_messages import HopPacket, SentAgain
from tests.property import test_graph_laws as graph
from tests.property import test_spcf_laws as spcf
from tests.seeds import few

Make = Callable[..., GraphRouting]


def gsf_at_hops(*options: Any, stream: type[HopStream] = HopStream, **more: Any) -> GraphRouting:
    return GraphRouting(*options, hops=stream(), **more)


def spcf_at_hops(*options: Any, stream: type[HopStream] = HopStream, **more: Any) -> GraphRouting:
    return spcf_routing(*options, hops=stream(), **more)


@given(st.sampled_from(sorted(graph.OVERLAYS)), graph.COSTS, graph.scripts(graph.GENTLE))
def test_gsf_with_links_that_die_and_return(overlay, costs, script) -> None:
    graph.run(overlay, costs, script, gsf_at_hops)


@given(st.sampled_from(sorted(graph.OVERLAYS)), graph.COSTS, graph.scripts(graph.ROUGH))
def test_gsf_with_brokers_that_forget_everything(overlay, costs, script) -> None:
    graph.run(overlay, costs, script, gsf_at_hops)


@given(st.sampled_from(sorted(spcf.OVERLAYS)), spcf.LIMITS, spcf.scripts(spcf.GENTLE))
def test_spcf_with_links_that_die_and_return(overlay, limit, script) -> None:
    spcf.run(overlay, limit, script, spcf_at_hops)


@given(st.sampled_from(sorted(spcf.OVERLAYS)), spcf.LIMITS, spcf.scripts(spcf.ROUGH))
def test_spcf_with_brokers_that_forget_everything(overlay, limit, script) -> None:
    spcf.run(overlay, limit, script, spcf_at_hops)


@given(spcf.FLUSHES)
def test_what_is_published_after_a_flush_goes_where_that_came_from(script) -> None:
    spcf.run_flushes(script, spcf_at_hops)


@given(st.sampled_from(sorted(spcf.OVERLAYS)), spcf.scripts(spcf.GENTLE))
def test_with_too_little_room_for_what_is_under_way_the_tables_are_whole_again(overlay, script) -> None:
    spcf.run_with_little_room(overlay, script, spcf_at_hops)


@pytest.mark.parametrize("seed", few(range(6), 2))
def test_long_scripts_on_a_random_overlay_hold_and_make_use_of_all_there_is(seed: int) -> None:
    random_ = random.Random(seed)
    names = [f"n{number}" for number in range(8)]
    links = [(names[at], names[random_.randrange(at)]) for at in range(1, len(names))]
    links += [(a, b) for a, b in (random_.sample(names, 2) for _ in range(8)) if not {(a, b), (b, a)} & {*links}]
    made = spcf.Run(links, random_.choice([2, 64]), spcf_at_hops)
    for _ in range(5):  # faults, and peace: what is published next goes hop by hop
        made.follow((random_.choice(spcf.ROUGH), random_.randrange(51), random_.randrange(100)) for _ in range(100))
        made.network.settle()
    made.check_deliveries()
    made.check_tables()
    made.check_afterwards()
    made.leave()
    handled: Counter[type] = made.network.wires.handled
    assert handled[HopPacket] > 200
    assert made.network.wires.packets[SentAgain] > 0


# ------------------------------------------------------------ planted faults


class SendsNothingAgain(HopStream):
    def send_again(self) -> list[Answer]:
        return []


class TakesTwice(HopStream):
    """What is sent again is taken, whether it has come or not."""

    def _on_sent_again(self, source: NodeId, message: SentAgain, now: float) -> list[Answer]:
        return self.tables.take(source, message.message, now)


class PassesOverSomebody(HopStream):
    """One neighbour fewer than there are."""

    def _wanting_behind(self, packet: HopPacket) -> list[NodeId]:
        return super()._wanting_behind(packet)[1:]


class LosesBits(HopStream):
    """A Bloom filter without some that were put in."""

    def send(self, *arguments: Any, meant: Any = None, **more: Any) -> list[Answer]:
        answers = super().send(*arguments, meant=meant, **more)
        packets: list[Any] = [each.message if isinstance(each, Forward) else None for each in answers]
        if meant and isinstance(packets[0], HopPacket):
            bloom = BloomFilter.of("/".join(each) for each in meant[1:]).wire()
            changed = {id(packet): _with_bloom(packet, bloom) for packet in packets if isinstance(packet, HopPacket)}
            answers = [
                Forward(each.peer, changed[id(each.message)])
                if isinstance(each, Forward) and id(each.message) in changed
                else each
                for each in answers
            ]
        return answers


def _with_bloom(packet: HopPacket, bloom: bytes) -> Any:
    return HopPacket(
        packet.source, packet.incarnation, packet.view, packet.number, packet.message, packet.targets, bloom
    )


PLANTED = [SendsNothingAgain, TakesTwice, PassesOverSomebody, LosesBits]


@pytest.mark.parametrize("planted", PLANTED)
def test_a_planted_fault_breaks_a_law(planted: type[HopStream]) -> None:
    @settings(max_examples=3_000, phases=[Phase.generate])
    @given(st.sampled_from(["line", "ring", "bridge"]), spcf.LIMITS, spcf.scripts(spcf.ROUGH))
    def law(overlay, limit, script) -> None:
        spcf.run(overlay, limit, script, lambda *options, **more: spcf_at_hops(*options, stream=planted, **more))

    with pytest.raises((AssertionError, KeyError)):
        law()


def test_a_hop_that_hears_of_no_subscription_passing_it_breaks_a_law(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(GraphRouting, "between", lambda self, targets: [])

    @settings(max_examples=3_000, phases=[Phase.generate])
    @given(st.sampled_from(["line", "bridge"]), spcf.LIMITS, spcf.scripts(spcf.GENTLE))
    def law(overlay, limit, script) -> None:
        spcf.run(overlay, limit, script, spcf_at_hops)

    with pytest.raises(AssertionError):
        law()
