"""The simulator: the production machines of brokers and clients on virtual time, with all faults, from one seed.

A `Scenario` describes a run (`load`, `named`, `with_changes`, `drawn`), a `Summary` its result. Both are public: a
network, or a change to it, can be tried before it is built.

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
