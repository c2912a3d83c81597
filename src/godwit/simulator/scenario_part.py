"""Parts of a run: what a section of the scenario adds to brokers, links and clients.

*Theory.* A run always has a world with its clock, a network, a population and the requests that clients make
(`world.py`, `network.py`, `population.py`, `client_requests.py`). Everything else is a part, and exists only in a run
whose scenario has its section: clients that follow a workload, disconnect, roam, walk, change their requests or their
context; a building with fires; faults. A part is made from what it needs to see, registers itself where it wants to be
called (`Population.before_connecting` and the like, `Recorder.listen`), and then plans.

*Rules.*
1. A part owns its fields. It sees other parts only through what it was made from, and only through public names.
2. No part depends on whether another part is there.
"""

from typing import Protocol

__all__ = ["ScenarioPart"]


class ScenarioPart(Protocol):
    """What one section of a scenario does in a run."""

    def plan(self) -> None:
        """Put everything that is known before the run begins into the queue of the clock."""
