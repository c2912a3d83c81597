"""The contexts section of a scenario: contexts of clients, filters on senders, events that are addressed.

*Rules.*
1. Whatever is asked about contexts needs contexts to ask about (`attributes`).
"""

from typing import Annotated, Literal

import msgspec

from godwit.errors import ScenarioError
from godwit.settings import Where

__all__ = ["ROLE", "Contexts", "check_contexts"]

Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
SomeShare = Annotated[float, msgspec.Meta(gt=0, le=1)]

ROLE = "role"
"""The attribute of a context that the server alone says, where `role_share` is above 0."""


class Contexts(msgspec.Struct, frozen=True, kw_only=True):
    """Clients with a context, subscriptions that ask about the sender's, events that say whom they mean. [spcf §3]"""

    attributes: Annotated[int, msgspec.Meta(ge=0, le=16)] = 0  # of each context; 0: nobody has any
    values: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] = 10  # of each attribute: whole numbers from 0
    kind: Literal["ranges", "mixed"] = "ranges"  # mixed: any filter the algebra knows, over few values
    locality: Share = 0.0  # share of contexts that are like others at the same broker and those beside it [spcf §4.3]
    sender_share: Share = 0.0  # of subscriptions that ask about the sender's context
    sender_selectivity: SomeShare = 0.2  # ranges: how likely a context matches what they ask
    to_share: Share = 0.0  # of events that say whom they mean
    to_selectivity: SomeShare = 0.2  # ranges: how likely a context is meant
    changes_per_s: Annotated[float, msgspec.Meta(ge=0, le=10_000)] = 0.0  # over all clients, in the bursts of churn
    role_share: Share = 0.0  # of clients for whose role the server vouches

    @property
    def is_on(self) -> bool:
        """Whether anyone has a context."""
        return self.attributes > 0 or self.role_share > 0


def check_contexts(contexts: Contexts, where: Where) -> None:
    """Raise `ScenarioError` unless there is a context for everything that is said about contexts."""
    if contexts.attributes:
        return
    for key in ("sender_share", "to_share", "changes_per_s"):
        if value := getattr(contexts, key):
            raise ScenarioError(
                f"{where(('contexts', key))} is {value:g}: contexts.attributes is 0, so there is no context; "
                "allowed is 0, or contexts.attributes of 1 to 16"
            )
