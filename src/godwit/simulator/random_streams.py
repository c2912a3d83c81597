"""Random streams: one generator for each kind of draw, seeded by a seed and the name of the draw.

*Theory.* If several kinds of draws share a generator, one more draw of one kind changes all the others. So each kind of
draw has a separate stream, and draws about a client, a node, a wire or a kind of fault have a stream for each of these
(`entity`). So a new kind of draw does not change the runs of recorded seeds.

*Rules.*
1. The same seed, purpose and entity give the same stream, whatever else is drawn and in which order.
2. A new kind of draw takes a new purpose; a purpose is used in one place.
"""

from random import Random

__all__ = ["RandomStreams"]


class RandomStreams:
    """All generators of one run, or of one drawn scenario, by name."""

    def __init__(self, seed: int | str) -> None:
        self._seed = seed
        self._streams: dict[str, Random] = {}

    def stream(self, purpose: str, entity: str = "") -> Random:
        """The generator for a purpose and an entity; the same one each time."""
        name = self._name(purpose, entity)
        found = self._streams.get(name)
        if found is None:
            found = self._streams[name] = Random(name)
        return found

    def single_use(self, purpose: str, entity: str) -> Random:
        """A new generator, for a single draw; it is not kept."""
        return Random(self._name(purpose, entity))

    def _name(self, purpose: str, entity: str) -> str:
        return f"{self._seed}/{purpose}/{entity}" if entity else f"{self._seed}/{purpose}"
