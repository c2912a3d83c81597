"""The journal of a device: what it holds for others, without what it only relayed.

*Theory.* Of a broker, the journal has every input (`codec/journal_entries.py`). A device hears beacons all the time and
passes on what is for others; nothing of that need survive it. So the journal of a device has the changes of what it
holds for others (`adhoc/holdings.py`): an entry each, in batches, with snapshots now and then, in the files and formats
of every journal (`journal.py`). A device that starts is told the entries, and goes on with what they come to.
"""

from collections.abc import Iterable, Iterator
from typing import cast

import msgspec

from godwit.adhoc.holdings import KEPT_KINDS, Kept
from godwit.broker.effects import ComponentInput, Input
from godwit.codec.journal_entries import ENTRIES, JournalEntry
from godwit.codec.message_codec import Codec
from godwit.codec.type_registry import TypeRegistry
from godwit.errors import JournalError, PeerFault

__all__ = ["KeptInput", "entries_of_changes", "kept_inputs"]

CHANGE = "change 2"  # with the version of its layout, which rises with every change of the fields
_CHANGES = Codec(TypeRegistry("change", KEPT_KINDS), as_json=False)
"""No peer can send one: the wires do not know them."""


class KeptInput(ComponentInput, frozen=True):
    """A change that stands in the journal."""

    kept: Kept


def entries_of_changes(changes: Iterable[Kept], now: float) -> list[JournalEntry]:
    """The entries of changes that were made now."""
    return [JournalEntry(now, CHANGE, "", _CHANGES.encode(change)) for change in changes]


def kept_inputs(batch: bytes) -> Iterator[tuple[Input, float]]:
    """The changes of a batch, each with when it was made. `JournalError`: this version cannot read them."""
    try:
        for entry in ENTRIES.decode(batch):
            if entry.kind != CHANGE:
                raise JournalError(f"an entry of kind {entry.kind!r}: this version reads {CHANGE!r} of a device alone")
            yield KeptInput(cast(Kept, _CHANGES.decode(entry.data))), entry.at
    except (msgspec.MsgspecError, UnicodeDecodeError, PeerFault) as error:
        raise JournalError(f"a batch whose changes cannot be read: {error}") from None
