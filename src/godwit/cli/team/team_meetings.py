"""`godwit team meeting …`: times are proposed, members answer, one time is chosen."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any

from godwit.cli.signatures import Argument, BadParameter, Group, Option, echo
from godwit.cli.team.peer_connection import DEFAULT_FOLDER, Folder, answer_of, answers_of
from godwit.cli.team.team_display import show_answer, show_rows, shown

__all__ = ["app"]

app = Group(
    help="Propose meetings, answer, and fix their time.",
)

MINUTE_S = 60.0
Meeting = Annotated[str, Argument(metavar="MEETING", help="Identifier or title of a meeting.")]
COLUMNS = {
    "title": "title",
    "time": "chosen",
    "proposed": "times",
    "answers": "answers",
    "author": "author",
    "identifier": "id",
}


@app.add()
def propose(
    community: Annotated[str, Argument(metavar="COMMUNITY", help="Name or identifier of a community.")],
    title: Annotated[str, Argument(metavar="TITLE", help="Title of the meeting.")],
    times: Annotated[
        list[str],
        Option("--time", metavar="TIME", help="Time to choose from, as 2026-11-20T10:00 (local). Repeatable."),
    ],
    minutes: Annotated[float, Option(metavar="MINUTES", help="Duration in minutes.")] = 60.0,
    agenda: Annotated[str, Option(metavar="TEXT", help="Agenda.")] = "",
    documents: Annotated[
        list[str] | None, Option("--document", metavar="DOCUMENT", help="Document to review. Repeatable.")
    ] = None,
    folder: Folder = DEFAULT_FOLDER,
) -> None:
    """Propose a meeting to a community.

    Example: godwit team meeting propose Optics "Review" --time 2026-11-20T10:00 --time 2026-11-21T10:00
    """
    answer = answer_of(
        folder,
        "propose meeting",
        community=community,
        title=title,
        times=[_seconds(time) for time in times],
        duration_s=minutes * MINUTE_S,
        agenda=agenda,
        documents=documents or [],
    )
    show_answer(answer, f"{title} is proposed: {answer['id']}")


@app.add("list")
def list_meetings(
    community: Annotated[str, Option("--community", metavar="COMMUNITY", help="Only of this community.")] = "",
    folder: Folder = DEFAULT_FOLDER,
) -> None:
    """List meetings: proposed times, answers, and the chosen time.

    Example: godwit team meeting list
    """
    show_rows(answers_of(folder, "meetings", community=community), COLUMNS, "No meetings.", _in_short)


@app.add()
def answer(
    meeting: Meeting,
    yes: Annotated[list[str] | None, Option(metavar="TIME", help="Time that suits you. Repeatable.")] = None,
    maybe: Annotated[list[str] | None, Option(metavar="TIME", help="Time that may suit. Repeatable.")] = None,
    no: Annotated[list[str] | None, Option(metavar="TIME", help="Time that does not suit. Repeatable.")] = None,
    folder: Folder = DEFAULT_FOLDER,
) -> None:
    """Answer which times of a meeting suit you.

    Example: godwit team meeting answer Review --yes 2026-11-20T10:00 --no 2026-11-21T10:00
    """
    given = {"yes": yes or [], "maybe": maybe or [], "no": no or []}
    answers = {str(_seconds(time)): word for word, times in given.items() for time in times}
    if not answers:
        raise BadParameter("name times with --yes, --maybe or --no")
    said = answer_of(folder, "answer meeting", meeting=meeting, answers=answers)
    show_answer(said, f"Your answer to {said['title']} is stored; the best time so far: {shown('time', said['best'])}")


@app.add()
def choose(
    meeting: Meeting,
    time: Annotated[str, Option(metavar="TIME", help="Time of the meeting (default: that which suits most).")] = "",
    folder: Folder = DEFAULT_FOLDER,
) -> None:
    """Fix the time of a meeting.

    Example: godwit team meeting choose review
    """
    said = answer_of(folder, "choose meeting", meeting=meeting, time=_seconds(time) if time else None)
    show_answer(said, f"{said['title']}: {shown('time', said['chosen'])}")


@app.add()
def cancel(meeting: Meeting, folder: Folder = DEFAULT_FOLDER) -> None:
    """Cancel a meeting.

    Example: godwit team meeting cancel review
    """
    said = answer_of(folder, "cancel meeting", meeting=meeting)
    show_answer(said, f"{said['title']} is cancelled.")


@app.add()
def calendar(meeting: Meeting, folder: Folder = DEFAULT_FOLDER) -> None:
    """Print a meeting as an iCalendar file, for calendar programs.

    Example: godwit team meeting calendar Review > review.ics
    """
    echo(answer_of(folder, "calendar", meeting=meeting)["calendar"], nl=False)


def _in_short(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """A meeting as a row."""
    said = {
        user: [f"{word} {shown('time', float(time))}" for time, word in answers.items()]
        for user, answers in row["answers"].items()
    }
    title = f"{row['title']} (cancelled)" if row["is_cancelled"] else row["title"]
    return {**row, "title": title, "answers": said}


def _seconds(time: str) -> float:
    try:
        return datetime.fromisoformat(time).timestamp()
    except ValueError:
        raise BadParameter(f"{time!r} is not a time: write it as 2026-11-20T10:00") from None
