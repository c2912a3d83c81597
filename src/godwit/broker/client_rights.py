"""What a client may publish and subscribe to, as a broker's machine knows it.

*Theory.* A right is a filter (`runtime/grants.py`). Drivers check each request before the machine sees it. The machine
needs the rights, too, for what no request shows: the retained event that would be replaced, the subscriptions and the
queue of a session whose rights have changed.

*Rules.*
1. To publish is allowed if the right matches the event. Where an attribute has several values, with each of them alone:
   else a client that may publish `topic = 'a'` would reach subscribers of every topic, with 'a' beside it. More than
   `CHOICES_MAX` combinations are not examined, and not allowed.
2. To subscribe is allowed if the right covers the filter. If not, nothing is left of it (`beyond_grants` is "refuse"),
   or what both match ("narrow"). What cannot be decided within an effort is not allowed.
"""

from collections.abc import Collection
from itertools import product
from math import prod
from typing import Any, Literal

import msgspec

from godwit.errors import FilterError
from godwit.filters.algebra import covers, intersects, is_never
from godwit.filters.effort import Effort
from godwit.filters.events import Attributes
from godwit.filters.filters import FALSE, TRUE, Filter, all_of, attributes_of

__all__ = ["CHOICES_MAX", "EFFORT_MAX", "NOT_ALLOWED", "BeyondGrants", "ClientRights", "left_of", "may_publish"]

CHOICES_MAX = 1_000
EFFORT_MAX = 20_000  # steps of holding one filter against rights
NOT_ALLOWED = "you are not allowed to"
"""The beginning of every refusal because of a missing right."""

BeyondGrants = Literal["refuse", "narrow"]
"""How a subscription that exceeds the rights is handled."""


class ClientRights(msgspec.Struct, frozen=True):
    """The rights of one client."""

    user: str = ""  # "": anonymous
    publish: Filter = TRUE
    subscribe: Filter = TRUE
    beyond_grants: BeyondGrants = "refuse"
    from_token: bool = False  # stated by a token of its own: a change of the user file changes nothing

    @property
    def is_everything(self) -> bool:
        """Whether there is nothing to check."""
        return self.publish == TRUE and self.subscribe == TRUE

    def without_any(self) -> "ClientRights":
        """The same user after all its rights have ended."""
        return ClientRights(self.user, FALSE, FALSE, self.beyond_grants, self.from_token)


def may_publish(publish: Filter, attributes: Attributes, unsaid: Collection[str] = ()) -> bool:
    """Whether the right matches an event with these attributes. (rule 1) `unsaid`: set by the server alone."""
    if publish == TRUE:
        return True
    if not publish.holds(attributes):
        return False
    several = [name for name, value in attributes.items() if type(value) is tuple and name not in unsaid]
    if not several:
        return True
    named = attributes_of(publish)
    names = [name for name in several if name in named]
    choices: list[Any] = [attributes[name] for name in names]
    if prod(map(len, choices)) > CHOICES_MAX:
        return False
    return all(publish.holds({**attributes, **dict(zip(names, chosen, strict=True))}) for chosen in product(*choices))


def left_of(filter: Filter, right: Filter, beyond_grants: BeyondGrants, effort: Effort | None = None) -> Filter | None:
    """The filter, if the right covers it; else what both match, if `beyond_grants` says so; None: nothing. (rule 2)"""
    effort = Effort(EFFORT_MAX) if effort is None else effort
    if right == TRUE or (right != FALSE and covers(right, filter, effort)):
        return filter
    if beyond_grants == "refuse" or effort.is_over or not intersects(right, filter, effort):
        return None
    try:
        left = all_of(filter, right)
    except FilterError:  # it is too large
        return None
    return None if is_never(left, effort) or effort.is_over else left
