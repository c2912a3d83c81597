"""The notes of an MQTT session: what is written is read again, and what cannot be read counts as missing."""

from godwit.mqtt.mqtt_effects import Granted, PersistentState
from godwit.mqtt.session_notes import (
    LOST,
    OUT,
    SUB,
    did_key,
    grant_note,
    in_key,
    kept_of,
    lost_note,
    lost_since,
    out_note,
    rel_key,
    rel_note,
)


def test_what_was_written_down_is_read_again() -> None:
    granted = Granted(2, True, True, 7, True)
    notes = {
        f"{SUB}a/+": grant_note(granted),
        in_key(9): b"",
        rel_key(4): rel_note(40),
        did_key(41): b"",
        OUT: out_note(PersistentState(confirmed=30, sent_up_to=50, done={35: True})),
    }
    kept = kept_of(notes)
    assert kept.subscriptions == {"a/+": granted}
    assert (kept.received, kept.released) == ({9: 0}, {4: 40})
    assert (kept.confirmed, kept.sent_up_to) == (30, 50)
    assert (kept.done, kept.settled) == ({40: True, 41: True, 35: True}, {41: True})


def test_what_is_confirmed_is_not_done_once_more() -> None:
    notes = {OUT: out_note(PersistentState(confirmed=30, sent_up_to=50, done={29: True, 30: True, 31: True}))}
    assert kept_of(notes).done == {31: True}


def test_a_note_that_cannot_be_read_counts_as_missing() -> None:
    notes = {f"{SUB}a": b"?", in_key(0): b"", in_key(65_536): b"", rel_key(1): b"", f"{did_key(1)}x": b"", OUT: b"?"}
    assert kept_of(notes) == PersistentState()


def test_the_earlier_of_two_losses_counts() -> None:
    notes = {LOST: lost_note(5.0)}
    assert [lost_since(notes, since) for since in (None, 4.0, 6.0)] == [5.0, 4.0, 5.0]
    assert [lost_since({}, since) for since in (None, 4.0)] == [None, 4.0]
    assert lost_since({LOST: b"?"}, 4.0) == 4.0
