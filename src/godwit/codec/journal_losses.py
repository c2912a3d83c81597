"""The loss of a journal: its content compared with its mark. Shared by the journal and the simulator.

*Theory.* `followed` follows the chain of the batches from the last snapshot on, and `loss_of` compares the result with
the mark (`batch_chains.py`). There are three results: the journal is complete; it has lost its *tail*, the last
batches, and the rest is undamaged; or it has lost more, so that a person must decide. The rest of a journal is
undamaged up to a batch, and a new incarnation may continue from there.

*Rules.*
1. An accepted loss is not found again: the journal has the sequence of the mark that revealed it.
2. A journal that is ahead of its mark is complete.
3. With `relaxed`, a lost tail is expected: the broker continues by itself. An operator must accept any other loss.
"""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Literal, NamedTuple

from godwit.codec.batch_chains import (
    MARK,
    Batch,
    BatchDamage,
    Mark,
    StoredSnapshot,
    UnreadableBatch,
    first_chain,
    verified,
)

__all__ = ["Content", "Durability", "Loss", "followed", "loss_of", "needs_operator", "unusable"]

TIME_MAX = 253_402_300_799.0  # the end of the year 9999, after which no time can be written

Durability = Literal["memory", "relaxed", "full"]


class Loss(NamedTuple):
    """Data that a journal has lost after it was safe."""

    missing: str  # for people
    batches: int  # number of batches; 0: unknown
    kept: int  # the last batch that is left; -1: nothing to continue from
    since: float  # when that was written; 0: not known
    is_tail: bool  # the last seconds of writing, and nothing else
    mark_sequence: int  # of the mark that revealed it
    incarnation: int = 0  # the next incarnation of the broker; 0: with an empty journal


class Content(NamedTuple):
    """The content of a journal."""

    incarnation: int
    number: int  # of the last batch up to which everything is undamaged
    at: float  # when it was written; 0: not known
    chain_at_mark: bytes | None  # of the batch that the mark names; None: unknown or missing
    damage: str  # the damage after that batch; "": none
    is_usable: bool  # the machine can be restored from it
    losses: int  # that were accepted
    losses_sequence: int  # of the newest mark that revealed one


def followed(
    incarnation: int,
    snapshot: StoredSnapshot | None,
    rows: Iterable[Batch],
    mark: Mark | None,
    losses: int = 0,
    losses_sequence: int = 0,
) -> Content:
    """The content of a journal with these batches after its last snapshot. An iterator of batches raises
    `UnreadableBatch` where the file cannot be read."""
    number, at, chain = 0, 0.0, first_chain(incarnation)
    if snapshot is not None:
        number, at, chain = snapshot.number, _known_time(snapshot.at), snapshot.chain
        if not snapshot.is_whole:
            return unusable(incarnation, f"snapshot {number} is not as it was written")
    found = chain if mark is not None and mark.number == number else None
    damage = ""
    try:
        for batch in verified(rows, number, chain):
            number, at = batch[0], _known_time(batch[1])
            if mark is not None and mark.number == number:
                found = batch[3]
    except BatchDamage as error:
        damage = str(error)
    except UnreadableBatch as error:
        damage = f"nothing can be read behind batch {number}: {error}"
    return Content(incarnation, number, at, found, damage, True, losses, losses_sequence)


def _known_time(at: object) -> float:
    """A time of a journal, which no checksum protects; 0: it is damaged."""
    return at if isinstance(at, float) and 0 <= at <= TIME_MAX else 0.0


def unusable(incarnation: int, damage: str) -> Content:
    """The content of a journal from which no machine can be restored."""
    return Content(incarnation, 0, 0.0, None, damage, False, 0, 0)


def needs_operator(loss: Loss, durability: Durability) -> bool:
    """Whether a broker refuses to start until an operator accepts the loss. (rule 3)"""
    return not (loss.is_tail and durability == "relaxed")


def loss_of(content: Content | None, mark: Mark | None, *, has_mark_file: bool) -> Loss | None:
    """The loss of a journal, by its content and its mark; None if there is none. Without content there is no
    journal."""
    if content is None:
        if not has_mark_file or (mark is not None and not mark.number):  # never begun, or not used
            return None
        what = f"the journal is gone: {_written(mark)}"
        return Loss(what, 0 if mark is None else mark.number, -1, 0.0, False, 0)
    kept, sequence = content.number, 0 if mark is None else mark.sequence
    if not content.is_usable:
        return Loss(
            f"the journal is damaged: {content.damage}. {_written(mark).capitalize()}", 0, -1, 0.0, False, sequence
        )
    if content.damage and mark is None:
        what = f"the journal is damaged: {content.damage}. Good up to {_batch(kept, content.at)}; {_written(mark)}"
        return Loss(what, 0, kept, content.at, False, sequence)
    if mark is None:
        state = "is damaged" if has_mark_file else "is gone"
        what = f"{MARK} {state}: it is unknown whether the journal is complete after batch {kept}"
        return Loss(what, 0, kept, content.at, False, sequence)
    if mark.incarnation != content.incarnation:
        what = f"the journal is not the one that {MARK} belongs to, but an older or another one; {_written(mark)}"
        return Loss(what, 0, -1, 0.0, False, sequence)
    is_told = mark.sequence <= content.losses_sequence  # rule 1
    missing = 0 if is_told else max(0, mark.number - kept)
    if content.damage:
        what = f"the journal is damaged: {content.damage}. Good up to {_batch(kept, content.at)}; {_written(mark)}"
        return Loss(what, missing, kept, content.at, False, sequence)
    if missing:
        which = f"batch {mark.number} is" if missing == 1 else f"batches {kept + 1} to {mark.number} are"
        what = f"{which} missing at the end of the journal, {_span(kept, content.at, mark)}"
        return Loss(what, missing, kept, content.at, kept >= mark.settled, sequence)
    if not is_told and content.chain_at_mark not in (None, mark.chain):
        what = (
            f"batch {mark.number} is not the one that was written there at {_time(mark.at)}: an older or another copy"
        )
        return Loss(what, 0, kept, content.at, False, sequence)
    return None


def _written(mark: Mark | None) -> str:
    if mark is None:
        return f"{MARK} cannot be read either"
    return f"{mark.number} batches were written, the last at {_time(mark.at)}"


def _batch(number: int, at: float) -> str:
    return f"batch {number} of {_time(at)}" if at else f"batch {number}"


def _span(kept: int, at: float, mark: Mark) -> str:
    """The time span of the missing batches."""
    return f"written after {_time(at)} and up to {_time(mark.at)}" if kept and at else f"written up to {_time(mark.at)}"


def _time(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(sep=" ", timespec="milliseconds")
