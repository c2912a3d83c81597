"""Which events have come already: the last numbers of each publisher, in bounded memory.

*Theory.* An event's id is its publisher and a sequence number, which only grows. For each publisher the highest number
seen is kept and one bit for each of the `window` numbers up to it. Publishers that have been silent the longest are
forgotten first: those heard of lately are in one table, the others in an older one, and when the first is full it
becomes the older one.

*Rules.*
1. An event is new once.
2. A number so far behind that its bit is gone counts as seen: one publisher's events come in order, so what comes that
   late has come before. (A client keeps fewer requests under way than the window has bits, so whatever it sends again
   after the loss of a session is still known.)
3. At most `publishers_max` publishers are remembered, of which the more recent half for certain.

*Paper.* [mobile §4.3] "mechanisms to eliminate duplicates will be needed"; [mobile §5] duplicate removal.
"""

from functools import cache

import msgspec

__all__ = ["Seen", "SeenData", "SeenState"]

SeenData = tuple[tuple[str, int, bytes], ...]
"""By publisher, the highest number and the bits of those up to it: its own is the lowest of the first byte, that of the
number before it the next. Bytes of zeros at the end are left out. (Not one int: wires carry ints of 64 bits.)"""


class SeenState(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is remembered, and within which bounds: sessions of one broker may differ in these."""

    window: int
    publishers_max: int
    older: SeenData = ()
    recent: SeenData = ()


@cache
def _bounds(window: int) -> tuple[int, int]:
    """The bits of a window; and from where on bits beyond it, which are never asked for, are cut off."""
    return (1 << window) - 1, 1 << 2 * window  # one object each, for the many that have the same window


NOBODY: dict[str, list[int]] = {}  # shared by the many that have seen nothing, and never changed


class Seen:
    """The events that have come, by publisher and sequence number."""

    __slots__ = ("_generation_max", "_mask", "_older", "_recent", "_trimmed_from", "_window")

    def __init__(self, window: int = 256, publishers_max: int = 1_024) -> None:
        assert window >= 1
        assert publishers_max >= 2
        self._window = window
        self._mask, self._trimmed_from = _bounds(window)
        self._generation_max = publishers_max // 2
        self._recent = NOBODY  # publisher: the highest number, and the bits of those up to it
        self._older = NOBODY

    def add(self, publisher: str, sequence: int) -> bool:
        """Remember that this event has come, and say whether it is new."""
        known = self._recent.get(publisher)
        if known is None:
            known = self._recalled(publisher, sequence)
        ahead = sequence - known[0]
        if ahead > 0:
            known[0] = sequence
            bits = known[1] << ahead | 1 if ahead < self._window else 1
            known[1] = bits if bits < self._trimmed_from else bits & self._mask
            return True
        if ahead <= -self._window or known[1] >> -ahead & 1:
            return False
        known[1] |= 1 << -ahead
        return True

    def data(self) -> SeenData:
        """All that is remembered, the oldest first."""
        return (*self._data(self._older), *self._data(self._recent))

    def _data(self, known: dict[str, list[int]]) -> SeenData:
        if not known:
            return ()
        return tuple((publisher, highest, _packed(bits & self._mask)) for publisher, (highest, bits) in known.items())

    def learn(self, data: SeenData) -> None:
        """Remember what another remembered."""
        for publisher, highest, packed in data:
            self._recalled(publisher, highest)[:] = [highest, int.from_bytes(packed, "little") & self._mask]

    def join(self, data: SeenData) -> None:
        """Remember what another remembered, besides what is remembered here."""
        for publisher, highest, packed in data:
            bits = int.from_bytes(packed, "little") & self._mask
            known = self._recent.get(publisher)
            if known is None:
                known = self._recalled(publisher, highest)
            ahead = highest - known[0]
            if ahead > 0:
                known[:] = [highest, known[1] << ahead if ahead < self._window else 0]
            if -ahead < self._window:
                known[1] = (known[1] | bits << max(-ahead, 0)) & self._mask

    def snapshot(self) -> SeenState:
        """All that is remembered, as it is kept here."""
        return SeenState(self._window, 2 * self._generation_max, self._data(self._older), self._data(self._recent))

    @classmethod
    def restored(cls, state: SeenState) -> "Seen":
        """The memory that was written down."""
        seen = cls(state.window, state.publishers_max)
        seen._older, seen._recent = _known(state.older), _known(state.recent)
        return seen

    def __len__(self) -> int:
        """How many publishers are remembered."""
        return len(self._recent) + len(self._older)

    def _recalled(self, publisher: str, sequence: int) -> list[int]:
        """What is known of a publisher that was not heard of lately, now among the recent ones."""
        if self._recent is NOBODY:
            self._recent = {}
        elif len(self._recent) >= self._generation_max:
            self._recent, self._older = {}, self._recent
        known = self._older.pop(publisher, None)
        if known is None:
            known = [sequence, 0]
        self._recent[publisher] = known
        return known


def _known(data: SeenData) -> dict[str, list[int]]:
    return {publisher: [highest, int.from_bytes(bits, "little")] for publisher, highest, bits in data} or NOBODY


def _packed(bits: int) -> bytes:
    return bits.to_bytes((bits.bit_length() + 7) // 8, "little")
