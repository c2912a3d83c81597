"""Random streams: one generator for each kind of draw, seeded by a seed and the name of the draw.

*Theory.* A generator that several kinds of draws share ties them together: one draw more of one kind changes all the
others. So each kind of draw has a stream of its own, and where draws are about a client, a node, a wire or a kind of
fault, each of these has its own share (`entity`). A recorded seed then stays what it was when a new kind of draw comes.

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
        """The generator for that purpose, or for one entity's share of it; the same one each time."""
        name = self._name(purpose, entity)
        found = self._streams.get(name)
        if found is None:
            found = self._streams[name] = Random(name)
        return found

    def single_use(self, purpose: str, entity: str) -> Random:
        """A generator at its beginning, for one thing that is drawn once; it is not kept."""
        return Random(self._name(purpose, entity))

    def _name(self, purpose: str, entity: str) -> str:
        return f"{self._seed}/{purpose}/{entity}" if entity else f"{self._seed}/{purpose}"
