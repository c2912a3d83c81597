"""The simulator: the brokers' and clients' own machines on virtual time, with every fault, from one seed.

A `Scenario` says what runs (`load`, `named`, `with_changes`, `drawn`), a `Summary` what came of it. Both are public:
a network can be tried out before it is built, and so can a change to it.

>>> from godwit.simulator import named, with_changes
>>> city = with_changes(named("city"), ["clients.publishers=100"])
>>> city.clients.publishers, city.routing.reduction
(100, 'covering')
"""

from godwit.simulator.random_scenarios import draw, drawn
from godwit.simulator.scenario import Scenario, check, load, named, names, overlay_of, with_changes
from godwit.simulator.summary import Summary, Violation
from godwit.simulator.topologies import LinkSpec, Overlay
from godwit.simulator.workloads import Workload, WorkloadSpec, workload_of

__all__ = [
    "LinkSpec",
    "Overlay",
    "Scenario",
    "Summary",
    "Violation",
    "Workload",
    "WorkloadSpec",
    "check",
    "draw",
    "drawn",
    "load",
    "named",
    "names",
    "overlay_of",
    "with_changes",
    "workload_of",
]
