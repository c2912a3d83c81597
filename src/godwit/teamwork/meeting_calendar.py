"""iCalendar files (RFC 5545) of meetings, so that other calendars show them. Written by the library `icalendar`.

*Rules.*
1. Times are in UTC: every calendar shows them in the zone of its user.
2. A meeting that is fixed has one entry, always with the same identifier, and a sequence that grows with each change: a
   calendar that imports the file again replaces the entry, and removes one that was cancelled. Times that are only
   proposed are entries of their own.
3. People are named with their address where the profile has one. Without, an attendee is an address under `.invalid`,
   which no mail reaches.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from urllib.parse import quote

import icalendar
import msgspec

__all__ = ["TIME_MAX", "Attendee", "CalendarEntry", "calendar_file"]

ANSWERS = {"yes": "ACCEPTED", "maybe": "TENTATIVE", "no": "DECLINED"}
TIME_MAX = 253_402_214_400  # a day before the year 10000
PRODUCT = "-//Godwit//teamwork//EN"


class Attendee(msgspec.Struct, frozen=True):
    """Somebody who is invited."""

    user: str
    name: str
    mail: str
    answer: str
    """`yes`, `maybe`, `no`, or nothing."""


class CalendarEntry(msgspec.Struct, frozen=True):
    """One time of a meeting. Times are seconds since 1970."""

    uid: str
    title: str
    description: str
    begins: float
    ends: float
    status: str
    """`CONFIRMED`, `TENTATIVE` or `CANCELLED`."""
    sequence: int
    changed: float
    remind_s: float
    organizer: str
    attendees: tuple[Attendee, ...]


def calendar_file(entries: Sequence[CalendarEntry]) -> bytes:
    """The bytes of a file `*.ics`."""
    calendar = icalendar.Calendar()
    calendar.add("prodid", PRODUCT)
    calendar.add("version", "2.0")
    is_cancelled = any(entry.status == "CANCELLED" for entry in entries)
    calendar.add("method", "CANCEL" if is_cancelled else "PUBLISH")
    for entry in entries:
        calendar.add_component(_event(entry))
    return bytes(calendar.to_ical())


def _event(entry: CalendarEntry) -> icalendar.Event:
    event = icalendar.Event()
    event.add("uid", entry.uid)
    event.add("dtstamp", _moment(entry.changed))
    event.add("dtstart", _moment(entry.begins))
    event.add("dtend", _moment(entry.ends))
    event.add("summary", entry.title)
    if entry.description:
        event.add("description", entry.description)
    event.add("status", entry.status)
    event.add("sequence", entry.sequence)
    for attendee in entry.attendees:
        if attendee.user == entry.organizer:
            event.add("organizer", _address(attendee))
        else:
            address = _address(attendee)
            address.params["PARTSTAT"] = ANSWERS.get(attendee.answer, "NEEDS-ACTION")
            address.params["ROLE"] = "REQ-PARTICIPANT"
            event.add("attendee", address, encode=False)
    if entry.status == "CONFIRMED":
        event.add_component(_alarm(entry))
    return event


def _alarm(entry: CalendarEntry) -> icalendar.Alarm:
    alarm = icalendar.Alarm()
    alarm.add("action", "DISPLAY")
    alarm.add("description", entry.title)
    alarm.add("trigger", -timedelta(seconds=round(entry.remind_s)))
    return alarm


def _address(attendee: Attendee) -> icalendar.vCalAddress:
    """An address as a calendar has it. (rule 3)"""
    mail = "".join(attendee.mail.split())
    address = icalendar.vCalAddress(f"mailto:{mail or quote(attendee.user, safe='') + '@godwit.invalid'}")
    address.params["CN"] = " ".join(attendee.name.replace('"', "'").split())
    return address


def _moment(at: float) -> datetime:
    """A time of day. One that no calendar has, from a device whose clock is wrong, becomes 1970."""
    return datetime.fromtimestamp(round(at) if 0 <= at < TIME_MAX else 0, UTC)
