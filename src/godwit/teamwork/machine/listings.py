"""Listings: the public part of a community for the team, which follows the settings of the community.

*Theory.* A listing is a record of the team, `listing/…`, that belongs to the user who founded the community: peers of
the team cannot see who is an owner of a community that they are not in. So when another owner changes the settings, the
devices of the founder update the listing.

*Rules.*
1. A device of the author of a listing writes it when it differs from the settings of the community, and nobody else
   does. Two devices write the same.
"""

from collections.abc import Mapping
from typing import Any, Protocol

from godwit.teamwork.machine.part_host import PartHost
from godwit.teamwork.machine.store import Store

__all__ = ["ListingHost", "Listings", "listing_fields", "listing_name"]

SHOWN = ("name", "description", "topic", "place", "join", "archived")
SETTINGS = "scope/self"


def listing_name(community: str) -> str:
    """The name of the record."""
    return f"listing/{community.partition('/')[2]}"


def listing_fields(community: str, settings: Mapping[str, Any], author: str, clock: int) -> dict[str, Any]:
    """What a listing says. With the `clock` of the community, a user who joins comes after all that is in it."""
    return {**{name: settings.get(name) for name in SHOWN}, "id": community, "author": author, "clock": clock}


class ListingHost(PartHost, Protocol):
    """What listings need of their peer."""

    @property
    def team(self) -> str:
        """The scope of the team."""
        ...

    def change_together(self, scope: str, records: Mapping[str, dict[str, Any]]) -> None:
        """Make those changes that the user may make, by name of the record."""
        ...


class Listings:
    """The part of a peer that keeps listings true."""

    def __init__(self, host: ListingHost, store: Store) -> None:
        self._host, self._store = host, store
        self._changed: dict[str, None] = {}

    def on_record(self, scope: str, name: str) -> None:
        """A record is different now."""
        if name == SETTINGS and scope.startswith("community/"):
            self._changed[scope] = None

    def write(self) -> None:
        """An input was handled: write listings that it has made wrong. (rule 1)"""
        changed, self._changed = self._changed, {}
        for scope in changed:
            name, settings = listing_name(scope), self._host.governance(scope).settings
            known = self._store.record(self._host.team, name)
            if known is None or known.fields.get("author") != self._host.user:
                continue
            if any(known.fields.get(each) != settings.get(each) for each in SHOWN):
                fields = listing_fields(scope, settings, self._host.user, self._store.clock(scope))
                self._host.change_together(self._host.team, {name: fields})
