"""Parts of a run: the behaviour that a section of the scenario adds.

*Theory.* A run always has a world with its clock, a network, a population and the requests that clients make
(`world.py`, `network.py`, `population.py`, `client_requests.py`). Everything else is a part, and exists only in a run
whose scenario has its section: clients that follow a workload, disconnect, roam, walk, change their requests or their
context; a building with fires; faults. A part is made from what it needs to see, registers itself where it wants to be
called (`Population.before_connecting` and the like, `Recorder.listen`), and then plans.

*Rules.*
1. A part owns its fields. It uses other parts only through its constructor arguments, and only through public names.
2. No part depends on the presence of another part.
"""

from typing import Protocol

__all__ = ["ScenarioPart"]


class ScenarioPart(Protocol):
    """A part of a run, for one section of a scenario."""

    def plan(self) -> None:
        """Schedule everything that is known before the run begins."""
