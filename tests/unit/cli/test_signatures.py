"""Commands are made from the signatures of functions."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import pytest
from click.testing import CliRunner, Result

from godwit.cli.signatures import Argument, BadParameter, Exit, Group, Option


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


def ran(*words: str, env: dict[str, str] | None = None) -> tuple[Result, dict[str, Any]]:
    """The result of a command, and the values that its function got."""
    app, got = Group("app"), {}

    @app.add("fly")
    def fly(
        to: Annotated[str, Argument(metavar="PLACE", help="Where to fly.")],
        over: Annotated[list[str] | None, Argument(metavar="PLACE", help="On the way.")] = None,
        height: Annotated[float, Option(min=0, max=9, metavar="KM", help="Height.")] = 1.5,
        flock: Annotated[int | None, Option("--flock", "-n", min=1, help="How many.")] = None,
        colour: Annotated[Colour, Option(help="Colour.")] = Colour.RED,
        loud: Annotated[bool, Option("--loud", help="Call.")] = False,
        waits: Annotated[bool | None, Option(help="Wait for others.")] = None,
        note: Annotated[list[str] | None, Option(help="Notes.")] = None,
        log: Annotated[Path | None, Option(help="Log.", envvar="FLY_LOG")] = None,
    ) -> None:
        """Fly to a place.

        Example: app fly sea
        """
        got.update(locals())

    @app.add()
    def look_down() -> None:
        """Look."""
        raise Exit(3)

    @app.add()
    def fail() -> None:
        """Fail."""
        raise BadParameter("no wind")

    return CliRunner().invoke(app, words, env=env, prog_name="app"), got


def test_values_have_the_types_of_the_parameters() -> None:
    words = ("fly", "sea", "a", "b", "--height", "2", "-n", "3", "--colour", "blue", "--loud", "--no-waits")
    result, got = ran(*words, "--note", "x", "--note", "y", env={"FLY_LOG": "f.log"})
    assert result.exit_code == 0, result.output
    assert {
        name: got[name] for name in ("to", "over", "height", "flock", "colour", "loud", "waits", "note", "log")
    } == {
        "to": "sea",
        "over": ["a", "b"],
        "height": 2.0,
        "flock": 3,
        "colour": Colour.BLUE,
        "loud": True,
        "waits": False,
        "note": ["x", "y"],
        "log": Path("f.log"),
    }


def test_what_is_left_out_has_its_default() -> None:
    _, got = ran("fly", "sea")
    assert [got[name] for name in ("over", "height", "flock", "colour", "loud", "waits", "note", "log")] == [
        *(None, 1.5, None, Colour.RED, False, None, None, None)
    ]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--height", "10"), "Invalid value for '--height': 10.0 is not in the range 0<=x<=9."),
        (("--flock", "0"), "Invalid value for '--flock' / '-n': 0 is not in the range x>=1."),
        (("--flock", "x"), "Invalid value for '--flock' / '-n': 'x' is not a valid integer range."),
        (("--colour", "green"), "Invalid value for '--colour': 'green' is not one of 'red', 'blue'."),
        (("--speed", "1"), "No such option '--speed'."),
    ],
)
def test_a_value_that_is_not_allowed_is_named_with_what_is(words: tuple[str, ...], said: str) -> None:
    result, got = ran("fly", "sea", *words)
    assert (result.exit_code, got) == (2, {})
    assert said in result.stderr


def test_a_missing_argument_is_named() -> None:
    result, _ = ran("fly")
    assert (result.exit_code, "Missing argument 'PLACE'." in result.stderr) == (2, True)


def test_help_has_the_options_with_bounds_defaults_and_variables() -> None:
    result, _ = ran("fly", "--help")
    assert result.output.splitlines()[0] == "Usage: app fly [OPTIONS] PLACE [PLACE]..."
    lines = [" ".join(line.split()) for line in result.output.splitlines()]
    for line in (
        "PLACE Where to fly.",
        "--height KM Height. [default: 1.5; 0<=x<=9]",
        "-n, --flock INTEGER RANGE How many. [x>=1]",
        "--colour [red|blue] Colour. [default: red]",
        "--loud Call.",
        "--waits / --no-waits Wait for others.",
        "--log PATH Log. [env var: FLY_LOG]",
    ):
        assert line in lines, result.output


def test_commands_are_listed_in_their_order_and_have_the_names_of_functions() -> None:
    result, _ = ran("--help")
    listed = result.output.partition("Commands:\n")[2].split("\n")
    assert [line.split()[0] for line in listed if line] == ["fly", "look-down", "fail"]


def test_a_command_sets_the_exit_status_and_names_what_is_wrong() -> None:
    assert ran("look-down")[0].exit_code == 3
    result, _ = ran("fail")
    assert (result.exit_code, "Error: Invalid value: no wind" in result.stderr) == (2, True)
