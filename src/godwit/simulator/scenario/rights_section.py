"""The rights section of a scenario: rights of clients that change at random.

*Rules.*
1. A client whose rights change loses subscriptions, so nothing is owed to it: such a run is judged by the authorisation
   law alone (`rights_changes.py`).
"""

from typing import Annotated

import msgspec

from godwit.errors import ScenarioError
from godwit.settings import Where
from godwit.simulator.scenario.run_section import Run

__all__ = ["Rights", "check_rights"]


class Rights(msgspec.Struct, frozen=True, kw_only=True):
    """How often somebody's rights change."""

    changes_per_s: Annotated[float, msgspec.Meta(ge=0, le=1_000)] = 0.0  # over all clients; 0: all may do everything

    @property
    def is_on(self) -> bool:
        """Whether rights change at all."""
        return self.changes_per_s > 0


def check_rights(rights: Rights, run: Run, where: Where) -> None:
    """Raise `ScenarioError` if laws would judge what they cannot. (rule 1)"""
    for key in ("judge", "leave") if rights.is_on else ():
        if getattr(run, key):
            raise ScenarioError(
                f"{where(('rights', 'changes_per_s'))} is {rights.changes_per_s:g}: clients lose "
                f"subscriptions then, and only the authorisation law can judge; it needs run.{key} = false"
            )
