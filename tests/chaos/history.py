"""The history of a run: what clients said, were told and got, and what was done to the network. See README.md."""

import json
from collections.abc import Callable
from typing import Any, TextIO

__all__ = ["History"]


class History:
    """Writes the lines, and tells who waits for a delivery."""

    def __init__(self, file: TextIO, clock: Callable[[], float]) -> None:
        self._file = file
        self._clock = clock
        self.got: dict[str, set[str]] = {}  # by subscriber
        self.unacknowledged: set[str] = set()
        self.quiet_at = 0.0  # all that was published until then had come
        self.has_lost = False  # a disk has lost data, and nobody has seen since that all works again

    def now(self) -> float:
        return self._clock()

    def write(self, what: str, **fields: Any) -> None:
        self.has_lost = (self.has_lost or "loss_from" in fields) and what != "settled"
        self._file.write(json.dumps({"at": round(self._clock(), 6), "what": what, **fields}) + "\n")

    def publish(self, by: str, id: str, topic: str, promise: str) -> None:
        self.unacknowledged.add(id)
        self.write("publish", by=by, id=id, topic=topic, promise=promise)

    def acknowledge(self, id: str) -> None:
        self.unacknowledged.discard(id)
        self.write("acknowledge", id=id)

    def deliver(self, to: str, id: str) -> None:
        self.got.setdefault(to, set()).add(id)
        self.write("deliver", to=to, id=id)

    def flush(self) -> None:
        self._file.flush()
