"""The expected and actual deliveries of the demonstration, recorded by the clients alone, without asking brokers.

*Rules.*
1. Every event has its publisher (`by`) and a number (`n`), which identify it at any reader.
2. A reader with a fixed filter must receive every published event that matches and is addressed to it, no other event,
   each event once, and the events of one publisher in order. For a reader whose filter depends on its position only the
   last two are checked.
3. An event counts as published when a broker has accepted it.
"""

from collections.abc import Mapping
from typing import Any

from godwit.filters.events import event
from godwit.filters.filters import Filter

__all__ = ["ExpectedReader", "FleetLedger", "FleetVerdict"]

Id = tuple[str, int]


class ExpectedReader:
    """Somebody who wants something."""

    def __init__(self, name: str, filter: Filter, context: Mapping[str, Any], *, is_fixed: bool = True) -> None:
        self.name = name
        self.filter = filter
        self.context = dict(context)
        self.is_fixed = is_fixed
        self.came: list[Id] = []

    def take(self, attributes: Mapping[str, Any]) -> None:
        """An event was delivered."""
        self.came.append((str(attributes["by"]), int(attributes["n"])))


class FleetVerdict:
    """The number of violations of each kind."""

    def __init__(self) -> None:
        self.published = self.expected = self.delivered = self.lost = self.doubled = self.disordered = self.strange = 0
        self.wrong: list[str] = []  # descriptions of violations

    @property
    def is_clean(self) -> bool:
        """Whether nothing is."""
        return not (self.lost or self.doubled or self.disordered or self.strange)


class FleetLedger:
    """All published events, and all deliveries."""

    def __init__(self) -> None:
        self.readers: list[ExpectedReader] = []
        self.published: dict[Id, tuple[str, ...]] = {}  # with the fixed readers that must receive it
        self._expected = 0

    def reader(
        self, name: str, filter: Filter, context: Mapping[str, Any] = {}, *, is_fixed: bool = True
    ) -> ExpectedReader:
        """Add a reader that subscribes now."""
        self.readers.append(ExpectedReader(name, filter, context, is_fixed=is_fixed))
        return self.readers[-1]

    def publish(self, attributes: Mapping[str, Any], sender: Mapping[str, Any], to: Filter | None) -> None:
        """Somebody publishes this."""
        said = event({**attributes, **{f"sender.{name}": value for name, value in sender.items()}})
        wanted = tuple(
            reader.name
            for reader in self.readers
            if reader.is_fixed and reader.filter.matches(said) and (to is None or to.matches(event(reader.context)))
        )
        self.published[(str(attributes["by"]), int(attributes["n"]))] = wanted
        self._expected += len(wanted)

    def missing(self) -> int:
        """The number of deliveries that are missing so far."""
        return self._expected - sum(len(set(reader.came)) for reader in self.readers if reader.is_fixed)

    def verdict(self) -> FleetVerdict:
        """Compare deliveries with published events. (rule 2)"""
        verdict = FleetVerdict()
        verdict.published, verdict.expected = len(self.published), self._expected
        wanted: dict[str, set[Id]] = {reader.name: set() for reader in self.readers}
        for id, names in self.published.items():
            for name in names:
                wanted[name].add(id)
        for reader in self.readers:
            came = set(reader.came)
            verdict.delivered += len(came)
            verdict.doubled += len(reader.came) - len(came)
            verdict.wrong += [
                f"{reader.name}: {by} {n} arrived {reader.came.count((by, n))} times"
                for by, n in sorted(came)
                if reader.came.count((by, n)) > 1
            ]
            if reader.is_fixed:
                missed = sorted(wanted[reader.name] - came)
                verdict.lost += len(missed)
                verdict.wrong += [f"{reader.name}: {by} {n} never arrived" for by, n in missed]
                strange = sorted(came - wanted[reader.name])
                verdict.strange += len(strange)
                verdict.wrong += [f"{reader.name}: {by} {n} is not addressed to it" for by, n in strange]
            last: dict[str, int] = {}
            for by, n in reader.came:
                if n < last.get(by, 0):
                    verdict.disordered += 1
                    verdict.wrong.append(f"{reader.name}: {by} {n} after {last[by]}")
                last[by] = max(n, last.get(by, 0))
        return verdict
