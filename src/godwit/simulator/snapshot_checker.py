"""The checker of snapshots: a restored machine must answer every further input like the original.

*Theory.* A snapshot is correct if the restored machine cannot be distinguished from the original. So the checker takes
snapshots at random moments, in the stored form, restores a new machine from each and runs it in parallel for the rest
of the run: each input goes to both, and their effects must be equal. And a state that was taken must not change,
whatever its machine does: a driver may still be writing it.

*Rules.*
1. The run is not changed: only the effects of the first machine are carried out.
2. Effects are equal when they are the same, in the same order.
"""

from collections.abc import Callable
from random import Random
from typing import Any

from godwit.broker.broker import Broker
from godwit.broker.effects import Effect, Input
from godwit.codec import SNAPSHOTS
from godwit.simulator.world import Node, World

__all__ = ["SnapshotChecker"]

TWINS_MAX = 2  # of one machine at a time

Spoil = Callable[[Any], Any]
"""A change to a state before it is written, to test the checker."""


class SnapshotChecker:
    """Watches the brokers of a world. Attach it before the run."""

    def __init__(self, world: World, seed: int, every: int, spoil: Spoil | None = None) -> None:
        self._random = Random(f"{seed}/snapshots")
        self._every = every  # inputs, on average
        self._spoil = spoil
        self.taken = 0  # snapshots
        self.compared = 0  # inputs that a twin has handled, too
        self.differences: list[str] = []
        self._written: dict[str, tuple[Any, bytes]] = {}  # by broker the last state, and as it was written
        for node in world.nodes.values():
            if node.is_broker:
                self._watch_node(node)

    def _watch_node(self, node: Node) -> None:
        make = node.make

        def made(incarnation: int) -> Any:
            return self._watched(make(incarnation), lambda: make(incarnation))

        node.make = made
        node.machine = self._watched(node.machine, lambda: make(1))

    def _watched(self, machine: Any, make: Callable[[], Any]) -> Any:
        """The machine, with the same ways in, and twins beside it."""
        handle, twins = machine.handle, list[Any]()

        def handled(input: Input, now: float) -> list[Effect]:
            effects: list[Effect] = handle(input, now)
            for twin in list(twins):
                self._compare(machine, twin, twins, input, now, effects)
            if not self._random.randrange(self._every):
                twin = self._twin(machine, make)
                if len(twins) < TWINS_MAX:
                    twins.append(twin)
                else:  # of several, some run for long
                    twins[self._random.randrange(TWINS_MAX)] = twin
            return effects

        machine.handle = handled
        return machine

    def _twin(self, machine: Broker, make: Callable[[], Any]) -> Any:
        state: Any = machine.snapshot()
        if self._spoil is not None:
            state = self._spoil(state)
        if machine.name in self._written:
            before, written = self._written[machine.name]
            if SNAPSHOTS.encode({"machine": before}) != written:
                self.differences.append(f"{machine.name}: a state has changed since it was taken")
        data = SNAPSHOTS.encode({"machine": state})
        self._written[machine.name] = (state, data)
        read = SNAPSHOTS.decode(data)["machine"]
        if read != state:
            self.differences.append(f"{machine.name}: a state is not read as it was written")
        twin = make()
        twin.restore(read)
        self.taken += 1
        return twin

    def _compare(
        self, machine: Any, twin: Any, twins: list[Any], input: Input, now: float, effects: list[Effect]
    ) -> None:
        self.compared += 1
        try:
            found: list[Effect] = twin.handle(input, now)
        except Exception as error:
            twins.remove(twin)
            self.differences.append(f"{machine.name} at {now}: {input!r} raises {error!r} in the restored machine")
            return
        if found == effects:
            return
        twins.remove(twin)
        self.differences.append(f"{machine.name} at {now}: {input!r} gives\n  {effects!r}\nand restored\n  {found!r}")
