"""A layout that is laid out in pieces beside another one, which serves until this one takes its place."""

from godwit.matching.labels import Slot
from godwit.matching.layout import Layout

__all__ = ["Renewal"]


class Renewal:
    """The layout, and what is left to do."""

    def __init__(self, serving: Layout, slots: list[Slot]) -> None:
        self.layout = serving.twin()
        self._pieces = self.layout.pieces(slots)

    def go_on(self) -> bool:
        """Do one piece of the work; whether that was the last one."""
        return next(self._pieces, self) is self
