"""Random streams of a run: one generator for each purpose, seeded by the run's seed and the purpose's name.

*Rules.*
1. The same seed and name give the same stream, whatever else is drawn and in which order.
"""

from random import Random

__all__ = ["RandomStreams"]


class RandomStreams:
    """The generators of one run, by name."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._streams: dict[str, Random] = {}

    def stream(self, purpose: str, entity: str = "") -> Random:
        """The generator for that purpose, or for one entity's share of it; the same one each time."""
        name = f"{self.seed}/{purpose}/{entity}" if entity else f"{self.seed}/{purpose}"
        found = self._streams.get(name)
        if found is None:
            found = self._streams[name] = Random(name)
        return found
