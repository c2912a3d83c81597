"""[spcf §3.1.1]: the Bloom filter in packets. Claim S5.

*Theory.* The filter holds the contexts that a publisher's filter matches. A context that was put in is found; one that
was not is found at a stated rate, and then a packet may go on where nobody is meant. The last broker tests the exact
context, so nobody is given what is not for him. Each rate is measured twice: on the filter itself, with contexts that
were put in and others; and in a network, where needless packets have no other cause than the filter.
"""

from collections.abc import Callable

import msgspec

from godwit.broker.bloom import RATE, BloomFilter
from godwit.reproduce.spcf.routing_net import spcf_net
from godwit.reproduce.spcf.workload import Workload, WorkloadSize

__all__ = ["RATES", "Bloom", "blooms"]

RATES = (0.001, RATE, 0.1, 0.5)
CONTEXT = 0.1  # selectivity of the publishers' filters
TESTS = 400  # filters


class Bloom(msgspec.Struct, frozen=True, kw_only=True):
    """What Bloom filters of one rate did."""

    stated: float
    measured: float
    tested: int
    missed: int  # contexts that were put in and not found
    bytes: float
    packets: float  # for each message
    vain: float
    lost: int
    wrong: int


def blooms(size: WorkloadSize, messages: int, seed: int, tell: Callable[[str, float], None]) -> list[Bloom]:
    """By rate, the false positives of the filter, and the deliveries of messages."""
    workload = Workload(size, seed, content=1.0, context=CONTEXT, asks="publications")
    events = workload.events(messages)
    meant = workload.meant(events)
    found: list[Bloom] = []
    for number, rate in enumerate(RATES):
        net = spcf_net(workload.overlay, rate)
        workload.deploy(net)
        net.begin()
        lost = wrong = 0
        for event, clients in zip(events, meant, strict=True):
            given = set(net.publish(event))
            lost += len(clients - given)
            wrong += len(given - clients)
        false, tested, missed, length = _itself(workload, rate)
        found.append(
            Bloom(
                stated=rate,
                measured=false / tested,
                tested=tested,
                missed=missed,
                bytes=length,
                packets=net.sum.packets / messages,
                vain=net.sum.vain / messages,
                lost=lost,
                wrong=wrong,
            )
        )
        tell("Bloom filters", (number + 1) / len(RATES))
    return found


def _itself(workload: Workload, rate: float) -> tuple[int, int, int, float]:
    """False positives, how many could have been, false negatives, and bytes of a filter."""
    held = max(1, round(CONTEXT * workload.size.clients))
    false = tested = missed = length = 0
    for number in range(TESTS):
        inside = [f"{number}/{i}" for i in range(held)]
        outside = [f"{number}/{i}" for i in range(held, workload.size.clients)]
        filter = BloomFilter.of(inside, rate)
        length += len(filter.wire())
        missed += sum(each not in filter for each in inside)
        false += sum(each in filter for each in outside)
        tested += len(outside)
    return false, tested, missed, length / TESTS
