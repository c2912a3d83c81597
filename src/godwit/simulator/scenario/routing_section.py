"""The routing section of a scenario: how brokers route, and which combinations can work.

*Rules.*
1. A key that the routing family does not have is refused, not ignored.
2. Reductions and components are known by name: ours, and those that are registered or installed.
"""

from typing import Annotated, Literal

import msgspec

from godwit.broker.reductions import reduction_fault, reductions
from godwit.errors import ScenarioError
from godwit.mobility.extensions import component_names
from godwit.settings import Where
from godwit.simulator.scenario.extension_names import check_name
from godwit.simulator.scenario.units import Least, Probability

__all__ = ["RoutingSection", "check_names", "check_routing"]

Text = Annotated[str, msgspec.Meta(min_length=1)]

NO_ASF = msgspec.Meta(description="ASF is the family 'tree' with routing.advertisements 'off'")


class RoutingSection(msgspec.Struct, frozen=True, kw_only=True):
    """How brokers route. A centralized architecture is an overlay of one broker. [mobile §3]"""

    family: Literal["tree", "graph"] = "tree"
    reduction: Text = "covering"  # tree family: one of `broker.reductions.reductions()`
    excess_max: Probability = 0.0  # merging: which share of a merged filter nobody may want; 0 is perfect merging
    open_filters: Literal["each", "united"] = "united"  # tree family: how brokers tell of filters on clients' states
    advertisements: Literal["required", "optional", "off"] = "optional"  # tree family, and strategy advertised
    strategy: Annotated[Literal["gsf", "spcf", "advertised"], NO_ASF] = (
        "gsf"  # graph family: who hears of a subscription [spcf §3.1, §4; pubmob §4.1]
    )
    matching: Literal["source", "hops"] = "source"  # graph family: where events are matched [spcf §3.1.1]
    contexts_max: Least = 64  # spcf: contexts of its clients that a broker tells of before it sums them up
    quenching: bool = False  # sources hold the merged OR of all subscriptions [mobile §3.2]
    components: tuple[Text, ...] = ()  # of every broker, besides its own (mobility/extensions.py)

    @property
    def has_advertisements(self) -> bool:
        """Whether brokers route by what publishers advertise."""
        return self.advertisements != "off" and (self.family == "tree" or self.strategy == "advertised")


def check_names(routing: RoutingSection, where: Where) -> None:
    """Raise `ScenarioError` unless the reduction and the components are known. (rule 2)"""
    if ":" not in routing.reduction:
        check_name(routing.reduction, reductions(), where(("routing", "reduction")))
    elif fault := reduction_fault(routing.reduction):
        raise ScenarioError(f"{where(('routing', 'reduction'))} {fault}")
    for number, name in enumerate(routing.components):
        check_name(name, component_names(), where(("routing", "components", number)))


def check_routing(family: str, strategy: str, matching: str, where: Where) -> None:
    """Raise `ScenarioError` unless brokers of that family can route so."""
    if family != "graph":
        for key, value, default in (("strategy", strategy, "gsf"), ("matching", matching, "source")):
            if value != default:
                raise ScenarioError(
                    f"{where(('routing', key))} is {value!r}: only the family 'graph' has it, and the family is "
                    f"{family!r}; allowed is {default!r} there"
                )
    if (strategy, matching) == ("advertised", "hops"):
        key = where(("routing", "matching"))
        raise ScenarioError(f"{key} is 'hops': the strategy 'advertised' matches at the source; allowed is 'source'")
