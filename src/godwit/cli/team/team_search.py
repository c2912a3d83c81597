"""`godwit team search`: documents, people and communities, on all devices of the team."""

from typing import Annotated, Any

from godwit.cli.broker_connection import is_terminal
from godwit.cli.event_display import safe
from godwit.cli.signatures import Argument, BadParameter, Exit, Option, echo
from godwit.cli.statuses import STATUS_NO
from godwit.cli.team.peer_connection import DEFAULT_FOLDER, Folder, ask
from godwit.cli.team.team_display import note, write_line
from godwit.cli.terminal import Console, Text
from godwit.errors import GodwitError
from godwit.teamwork.query_languages import DEFAULT, LANGUAGE_HELP

__all__ = ["search"]

KINDS = {"document": "artefact", "user": "user", "community": "community"}
SHOWN = {"artefact": "document"}
FIELDS_SHOWN = ("title", "author", "keyword", "skill", "role", "city", "description")


def search(
    words: Annotated[
        str, Argument(metavar="WORDS", help="Words to find in profiles and texts; optical* finds beginnings.")
    ] = "",
    query: Annotated[str, Option(metavar="QUERY", help="Query over profiles, as in //skill[. = 'optics'].")] = "",
    language: Annotated[str, Option(metavar="NAME", help=LANGUAGE_HELP)] = DEFAULT,
    kinds: Annotated[
        list[str] | None,
        Option("--kind", metavar="KIND", help="Only document, user or community (default: all). Repeatable."),
    ] = None,
    communities: Annotated[
        list[str] | None, Option("--community", metavar="COMMUNITY", help="Only in this community. Repeatable.")
    ] = None,
    wait: Annotated[float, Option(metavar="SECONDS", min=0.1, help="Time to wait for answers of others.")] = 5.0,
    stay_open: Annotated[
        bool, Option("--stay-open", help="Wait for devices that are away, until Ctrl-C or for a week.")
    ] = False,
    folder: Folder = DEFAULT_FOLDER,
) -> None:
    """Search documents, people and communities on all devices. Results are printed as they come.

    Exit status 1 if nothing was found. Each device decides itself what it shows you.

    Example: godwit team search "lens mount" --kind document
    """
    if not words and not query:
        raise BadParameter("name words to find, or a --query")
    unknown = [kind for kind in kinds or () if kind not in KINDS]
    if unknown:
        raise GodwitError(f"--kind {unknown[0]}: a kind is one of {', '.join(KINDS)}")
    results = _Results()
    arguments = {
        "query": query,
        "language": language,
        "words": words,
        "kinds": [KINDS[kind] for kind in kinds or KINDS],
        "communities": communities or [],
        "wait_s": wait,
        "stays_open": stay_open,
    }
    try:
        ask(folder, "search", arguments, results.take)
    except KeyboardInterrupt:
        if not stay_open:
            raise
    raise Exit(0 if results.count else STATUS_NO)


class _Results:
    """Prints results, and at the end the devices that have not answered."""

    def __init__(self) -> None:
        self.count = 0

    def take(self, answer: dict[str, Any]) -> None:
        """Show an answer."""
        if (result := answer.get("result")) is not None:
            self.count += 1
            _show(result)
        elif is_terminal():
            progress = answer["progress"]
            missing, away = len(progress["waiting"]) + len(progress["away"]), len(progress["away"])
            asked = f"{missing} {'peer has' if missing == 1 else 'peers have'} not answered"
            echo(f"{progress['found']} found; {asked}; {away} {'is' if away == 1 else 'are'} away")
            for key, text in (("waiting", "not answered"), ("away", "away")):
                if progress[key]:
                    note(f"{text}: {', '.join(progress[key])}")
            for device, reason in progress["refused"].items():
                note(f"{device} did not search: {reason}")
        else:
            write_line(answer)


def _show(result: dict[str, Any]) -> None:
    if not is_terminal():
        write_line({"result": result})
        return

    fields = result["fields"]
    said = [f"{name}: {_text(fields[name])}" for name in FIELDS_SHOWN if fields.get(name)]
    kind = SHOWN.get(result["kind"], result["kind"])
    line = Text.assemble((f"{kind:<10}", "dim"), (safe(result["name"]), "bold cyan"), f"  {safe('; '.join(said))}")
    Console().print(line.append(f"  {safe(result['id'])}", style="dim"), soft_wrap=True)


def _text(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
