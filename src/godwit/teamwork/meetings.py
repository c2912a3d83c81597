"""Review meetings: times are proposed, members answer, one time is chosen. [motion §2: "organizing review meetings"]

A meeting is a record of a community; each member's answer is a record of its own, so that answers never contradict each
other. Times are seconds since 1970.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from godwit.errors import Refused
from godwit.teamwork.live_peer import LivePeer
from godwit.teamwork.machine.peer_effects import ChangeRecord
from godwit.teamwork.machine.records import Record
from godwit.teamwork.names import new_id, not_there

__all__ = ["ANSWERS", "Meeting", "Meetings"]

ANSWERS = ("yes", "maybe", "no")
WEIGHTS = {"yes": 2, "maybe": 1}
TIMES_MAX = 50
TITLE_CHARS_MAX = 200
DURATION_MAX_S = 7 * 86_400


class Meeting(msgspec.Struct, frozen=True):
    """A meeting."""

    id: str
    scope: str
    author: str
    title: str
    agenda: str
    times: tuple[float, ...]
    duration_s: float
    artefacts: tuple[str, ...]
    chosen: float | None
    is_cancelled: bool
    answers: dict[str, dict[float, str]]
    """By user and time."""

    @property
    def best(self) -> float | None:
        """The time that suits most: a yes counts twice as much as a maybe; of equals, the earliest."""
        scores = dict.fromkeys(self.times, 0)
        for by_time in self.answers.values():
            for time, answer in by_time.items():
                if time in scores:
                    scores[time] += WEIGHTS.get(answer, 0)
        return min(scores, key=lambda time: (-scores[time], time), default=None)


class Meetings:
    """The meetings of the communities of this user."""

    def __init__(self, peer: LivePeer) -> None:
        self._peer = peer

    def propose(
        self,
        scope: str,
        title: str,
        times: Sequence[float],
        *,
        duration_s: float = 3600.0,
        agenda: str = "",
        artefacts: Sequence[str] = (),
    ) -> str:
        """Propose a meeting to a community; its identifier."""
        if not title.strip() or len(title) > TITLE_CHARS_MAX:
            raise Refused(f"the title of a meeting must have 1 to {TITLE_CHARS_MAX} characters, not {len(title)}")
        if not 1 <= len(set(times)) <= TIMES_MAX:
            raise Refused(f"a meeting needs 1 to {TIMES_MAX} times to choose from, not {len(set(times))}")
        if not 0 < duration_s <= DURATION_MAX_S:
            raise Refused(f"a meeting lasts more than 0 and at most {DURATION_MAX_S:,} seconds, not {duration_s:g}")
        id = new_id()
        fields = {
            "author": self._peer.identity.user,
            "title": title,
            "agenda": agenda,
            "times": sorted(set(times)),
            "duration_s": duration_s,
            "artefacts": list(artefacts),
        }
        self._change(scope, f"meeting/{id}", fields)
        return id

    def answer(self, scope: str, id: str, answers: Mapping[float, str]) -> None:
        """Say which times suit this user: yes, maybe or no."""
        meeting = self.get(scope, id)
        for time, answer in answers.items():
            if time not in meeting.times:
                raise Refused(f"{time:g} is not a time of this meeting; they are {', '.join(map(str, meeting.times))}")
            if answer not in ANSWERS:
                raise Refused(f"an answer is {', '.join(ANSWERS)}, not {answer!r}")
        user = self._peer.identity.user
        given = [[time, answer] for time, answer in sorted(answers.items())]
        self._change(scope, f"answer/{id}.{user}", {"author": user, "answers": given})

    def choose(self, scope: str, id: str, time: float) -> None:
        """Fix the time of a meeting."""
        if time not in self.get(scope, id).times:
            raise Refused(f"{time:g} is not a time of this meeting")
        self._change(scope, f"meeting/{id}", {"chosen": time})

    def cancel(self, scope: str, id: str) -> None:
        """Let a meeting not take place."""
        self.get(scope, id)
        self._change(scope, f"meeting/{id}", {"cancelled": True})

    def get(self, scope: str, id: str) -> Meeting:
        """One meeting."""
        record = self._peer.repository.record(scope, f"meeting/{id}")
        if record is None or "times" not in record.fields:
            raise not_there("meeting", id, [])
        return self._meeting(scope, record)

    def all(self, scope: str) -> list[Meeting]:
        """All meetings of a community, by their first or chosen time."""
        records = [record for record in self._peer.repository.records(scope, "meeting") if "times" in record.fields]
        meetings = [self._meeting(scope, record) for record in records]
        return sorted(meetings, key=lambda meeting: meeting.chosen or meeting.times[0])

    def _change(self, scope: str, record: str, fields: dict[str, Any]) -> None:
        self._peer.do(ChangeRecord(scope, record, fields))

    def _meeting(self, scope: str, record: Record) -> Meeting:
        fields, id = record.fields, record.name.partition("/")[2]
        answers = {}
        for user in self._peer.machine.governance(scope).members():
            answer = self._peer.repository.record(scope, f"answer/{id}.{user}")
            if answer is not None:
                answers[user] = {float(time): str(said) for time, said in answer.fields.get("answers", ())}
        return Meeting(
            id,
            scope,
            str(fields.get("author", "")),
            str(fields.get("title", "")),
            str(fields.get("agenda", "")),
            tuple(map(float, fields["times"])),
            float(fields.get("duration_s", 3600.0)),
            tuple(map(str, fields.get("artefacts", ()))),
            fields.get("chosen"),
            bool(fields.get("cancelled")),
            answers,
        )
