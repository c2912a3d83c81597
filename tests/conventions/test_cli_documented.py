"""docs/reference/cli.md has every command of `godwit`, and every option and argument under its command's heading."""

import re
from collections.abc import Iterator
from typing import Annotated, Any

from godwit.cli.main import app
from godwit.cli.signatures import Argument, Group, Option
from tests.conventions.repository import ROOT

PAGE = (ROOT / "docs" / "reference" / "cli.md").read_text(encoding="utf-8")
HEADING = re.compile(r"^#+ +(?P<title>godwit\b.*?)\s*$", re.MULTILINE)


def commands(command: Any, name: str) -> Iterator[tuple[str, Any]]:
    """A command and all below it, each with its full name."""
    yield name, command
    for word, below in getattr(command, "commands", {}).items():
        yield from commands(below, f"{name} {word}")


def sections(page: str) -> dict[str, str]:
    """By the title of each heading that shows a command, the text up to the next one, title included."""
    found = list(HEADING.finditer(page))
    ends = [heading.start() for heading in found[1:]] + [len(page)]
    return {heading["title"]: page[heading.start() : end] for heading, end in zip(found, ends, strict=True)}


def faults(root: Any, page: str) -> Iterator[str]:
    shown = {" ".join(word for word in title.split() if not word.isupper()): title for title in sections(page)}
    known = dict(commands(root, "godwit"))
    for name, command in known.items():
        if name not in shown:
            yield f"{name} has no section"
            continue
        title, text = shown[name], sections(page)[shown[name]]
        arguments = [each.metavar or each.name.upper() for each in command.params if each.param_type_name == "argument"]
        if title.split()[len(name.split()) :] != arguments:
            yield f"{name}: the heading must name its arguments: {' '.join([name, *arguments])}"
        for option in (each for each in command.params if each.param_type_name == "option"):
            for spelling in [*option.opts, *option.secondary_opts]:
                if not re.search(rf"^\|.*`{re.escape(spelling)}[ `]", text, re.MULTILINE):
                    yield f"{name}: {spelling} is in no table of its section"
        spelled = {spelling for option in command.params for spelling in [*option.opts, *option.secondary_opts]}
        for spelling in re.findall(r"^\| `(--[\w-]+)", text, re.MULTILINE):
            if spelling not in spelled | {"--help"}:
                yield f"{name}: there is no {spelling}"
    yield from (f"there is no {name}" for name in shown if name not in known)


def test_every_command_option_and_argument_is_documented() -> None:
    assert list(faults(app, PAGE)) == []


def planted() -> Any:
    root = Group()

    @root.add()
    def fly(to: Annotated[str, Argument(metavar="PLACE")], height: int = 0) -> None:
        pass

    return root


def test_what_is_missing_or_made_up_is_caught() -> None:
    option = "| option | does |\n|---|---|\n| `{}` | something |\n"
    root = "## godwit\n\n" + option.format("--help")
    assert list(faults(planted(), root)) == ["godwit fly has no section"]
    assert list(faults(planted(), root + "## godwit fly\n")) == [
        "godwit fly: the heading must name its arguments: godwit fly PLACE",
        "godwit fly: --height is in no table of its section",
    ]
    assert list(faults(planted(), root + "## godwit fly PLACE\n\n" + option.format("--height INT"))) == []
    assert list(
        faults(planted(), root + "## godwit fly PLACE\n\n" + option.format("--height") * 2 + "## godwit sing\n")
    ) == ["there is no godwit sing"]
    assert "godwit fly: there is no --speed" in list(
        faults(planted(), root + "## godwit fly PLACE\n\n" + option.format("--speed"))
    )


WIDTH = 78  # of a terminal with 80 columns, as click fills it


def double_defaults(root: Any) -> Iterator[str]:
    """Options whose help has its default twice."""
    for name, command in commands(root, "godwit"):
        context = command.make_context(name, [], resilient_parsing=True)
        for each in command.params:
            record = each.get_help_record(context)
            if record is not None and len(re.findall(r"\bdefaults?\b", record[1], re.IGNORECASE)) > 1:
                yield f"{name}: {record[0]}: {record[1]}"


def long_summaries(root: Any) -> Iterator[str]:
    """Commands whose summary, the first sentence or `short_help`, does not fit 80 columns in the list of commands."""
    for name, command in commands(root, "godwit"):
        below = getattr(command, "commands", {})
        width = WIDTH - max(map(len, below), default=0) - 6  # indentation and space between the columns
        for word, each in below.items():
            if not each.hidden and each.get_short_help_str(width) != each.get_short_help_str(1_000):
                yield f"{name} {word}: its summary has more than {width} characters"


def test_no_option_shows_its_default_twice() -> None:
    assert list(double_defaults(app)) == []


def test_each_summary_fits_eighty_columns() -> None:
    assert list(long_summaries(app)) == []


def test_a_default_twice_and_a_long_summary_are_caught() -> None:
    root = Group()

    @root.add("land")
    def _land(
        speed: Annotated[int, Option(help="Speed (default: 3).")] = 3,
        height: Annotated[int, Option(help="Height in metres.")] = 4,
    ) -> None:
        """Land on the water between the other ducks, slowly, and with both feet in front."""

    [fault] = double_defaults(root)
    assert fault.startswith("godwit land: --speed ")
    assert list(long_summaries(root)) == ["godwit land: its summary has more than 68 characters"]


def outcome_rows(page: str) -> dict[str, str]:
    """By field of an outcome, what a page says it is."""
    return dict(re.findall(r"^\| `(owed|allowed)` \| (.+) \|$", page, re.MULTILINE))


def test_the_guide_and_the_reference_define_fields_of_an_outcome_alike() -> None:
    guide = (ROOT / "docs" / "guides" / "simulate.md").read_text(encoding="utf-8")
    assert outcome_rows(guide) == outcome_rows(PAGE)
    assert set(outcome_rows(PAGE)) == {"owed", "allowed"}
