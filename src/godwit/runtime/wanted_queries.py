"""A subscription of an application: a query in some language, and its options.

It can be stored and restored (`subscription_store.py`). Operators are code, and are not stored: a program registers its
operators before it connects.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from godwit.broker.messages import QueueRules
from godwit.client.own_context import asked
from godwit.errors import GodwitError, StoreError
from godwit.filters.filters import Filter
from godwit.filters.language import as_filter, to_text
from godwit.languages.operators import Operator, operators_named, registered_operators
from godwit.languages.query import NATIVE, Query, parse_query
from godwit.runtime.subscription_store import StoredSubscription

__all__ = ["Operators", "Wanted", "restored", "wanted"]

DIGEST_BYTES = 8

Operators = Mapping[str, Operator] | Iterable[str]
"""Operators by name, or the names of registered ones."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A subscription as an application asks for it."""

    source: Filter | str  # the text as given
    language: str
    filter: Filter | Query
    sender: Filter | str | None = None
    expires: float | None = None
    queue: QueueRules | None = None
    share: str = ""
    retained: bool = False

    @property
    def options(self) -> dict[str, Any]:
        """Its options for the client's machine."""
        options = {name: getattr(self, name) for name in ("sender", "expires", "queue", "retained")}
        return {**options, "share": self.group}

    @property
    def group(self) -> str:
        """The group that brokers share events in: of members whose queries are the same, not their filters alone.

        Otherwise an event could go to a member whose exact test rejects it, while another one wants it.
        """
        query = self.filter
        if not self.share or not isinstance(query, Query) or query.test is None:
            return self.share
        said = f"{query.language} {query.text}".encode()
        return f"{self.share} {blake2b(said, digest_size=DIGEST_BYTES).hexdigest()}"

    def check(self) -> None:
        """Raise `FilterError` if the options cannot be combined."""
        asked(self.filter.routable if isinstance(self.filter, Query) else self.filter, self.sender)

    def stored(self, name: str) -> StoredSubscription:
        """Its row in the store."""
        text = self.source if isinstance(self.source, str) else to_text(self.source)
        sender = to_text(self.sender) if isinstance(self.sender, Filter) else self.sender
        return StoredSubscription(
            name, self.language, text, sender, self.expires, self.queue, self.share, self.retained
        )


def wanted(said: Filter | str | Query, language: str, operators: Operators | None, *options: Any) -> Wanted:
    """The subscription from an application's arguments. `operators`: None for all registered ones."""
    if isinstance(said, Query):
        return Wanted(said.text, said.language, said, *options)
    if not isinstance(said, str):
        return Wanted(said, NATIVE, as_filter(said), *options)
    return Wanted(said, language, parse_query(said, language, _known(operators)), *options)


def restored(row: StoredSubscription) -> Wanted:
    """What was stored."""
    options = (row.sender, row.expires, row.queue, row.share, row.retained)
    try:
        return wanted(row.text, row.language, None, *options)
    except GodwitError as error:
        raise StoreError(
            f"the stored subscription {row.name!r} cannot be read: {error}\n"
            "register its language and its operators before the client connects"
        ) from None


def _known(operators: Operators | None) -> Mapping[str, Operator]:
    if operators is None:
        return registered_operators()
    return operators if isinstance(operators, Mapping) else operators_named(tuple(operators))
