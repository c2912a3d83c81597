"""Duplicate detection: the last sequence numbers of each publisher, in bounded memory.

*Theory.* An event's id is its publisher and a sequence number, which only grows. For each publisher the highest number
seen is kept and one bit for each of the `window` numbers up to it. Publishers without recent events are forgotten
first: there is a table of recent publishers and an older table; when the first is full, it replaces the older one.

*Rules.*
1. An event is new once.
2. A number that is too old to have a bit counts as seen: events of one publisher arrive in order, so an event that late
   is a duplicate. (A client has fewer unanswered requests than the window has bits, so all that it sends again after
   the loss of a session is still known.)
3. At most `publishers_max` publishers are remembered, and always the more recent half of that number.

*Paper.* [mobile §4.3] "mechanisms to eliminate duplicates will be needed"; [mobile §5] duplicate removal.
"""

from functools import cache

import msgspec

__all__ = ["Seen", "SeenData", "SeenState"]

SeenData = tuple[tuple[str, int, bytes], ...]
"""By publisher, the highest number and a bit for each number up to it: the lowest bit of the first byte is that of
the highest number, the next bit that of the number before it. Trailing zero bytes are left out. (Not an int: wire
formats have ints of 64 bits.)"""


class SeenState(msgspec.Struct, frozen=True, omit_defaults=True):
    """The remembered numbers and their bounds: sessions of one broker may have different bounds."""

    window: int
    publishers_max: int
    older: SeenData = ()
    recent: SeenData = ()


@cache
def _bounds(window: int) -> tuple[int, int]:
    """The bits of a window, and the number of bits above which unused ones are cut off."""
    return (1 << window) - 1, 1 << 2 * window  # one object each, for the many that have the same window


NOBODY: dict[str, list[int]] = {}  # shared by the many that have seen nothing, and never changed


class Seen:
    """The events that were seen, by publisher and sequence number."""

    __slots__ = ("_generation_max", "_mask", "_older", "_recent", "_trimmed_from", "_window")

    def __init__(self, window: int = 256, publishers_max: int = 1_024) -> None:
        assert window >= 1
        assert publishers_max >= 2
        self._window = window
        self._mask, self._trimmed_from = _bounds(window)
        self._generation_max = publishers_max // 2
        self._recent = NOBODY  # publisher: the highest number, and the bits of those up to it
        self._older = NOBODY

    @property
    def window(self) -> int:
        """For how many numbers up to the highest there is a bit."""
        return self._window

    def add(self, publisher: str, sequence: int) -> bool:
        """Remember an event; returns whether it is new."""
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

    def has(self, publisher: str, sequence: int) -> bool:
        """Whether an event is remembered. One that is too old to have a bit is not."""
        known = self._recent.get(publisher) or self._older.get(publisher)
        if known is None:
            return False
        behind = known[0] - sequence
        return 0 <= behind < self._window and bool(known[1] >> behind & 1)

    def data(self) -> SeenData:
        """All remembered numbers, the oldest first."""
        return (*self._data(self._older), *self._data(self._recent))

    def _data(self, known: dict[str, list[int]]) -> SeenData:
        if not known:
            return ()
        return tuple((publisher, highest, _packed(bits & self._mask)) for publisher, (highest, bits) in known.items())

    def learn(self, data: SeenData) -> None:
        """Replace the memory by that of another."""
        for publisher, highest, packed in data:
            self._recalled(publisher, highest)[:] = [highest, int.from_bytes(packed, "little") & self._mask]

    def join(self, data: SeenData) -> None:
        """Add the memory of another."""
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
        """The snapshot of the memory."""
        return SeenState(self._window, 2 * self._generation_max, self._data(self._older), self._data(self._recent))

    @classmethod
    def restored(cls, state: SeenState) -> "Seen":
        """The memory from a snapshot."""
        seen = cls(state.window, state.publishers_max)
        seen._older, seen._recent = _known(state.older), _known(state.recent)
        return seen

    def __len__(self) -> int:
        """How many publishers are remembered."""
        return len(self._recent) + len(self._older)

    def _recalled(self, publisher: str, sequence: int) -> list[int]:
        """Move a publisher from the older table to the recent one."""
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
