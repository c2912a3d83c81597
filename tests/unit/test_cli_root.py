"""The root of the command line: help, version, and errors as one message and an exit status."""

import pytest
import typer
from typer.testing import CliRunner

from godwit import __version__
from godwit.cli import main
from godwit.errors import BadValue


def test_help_names_every_command_and_the_exit_statuses() -> None:
    shown = CliRunner().invoke(main.app, ["--help"])
    assert shown.exit_code == 0
    for word in ("demo", "match", "filter", "--version", "Exit status"):
        assert word in shown.output


def test_version_is_that_of_the_package() -> None:
    assert CliRunner().invoke(main.app, ["--version"]).output == f"godwit {__version__}\n"


def test_an_error_raised_on_purpose_is_one_message_and_status_2() -> None:
    app = typer.Typer(cls=main.Commands)

    @app.callback()
    def root() -> None:
        pass

    @app.command()
    def fail() -> None:
        raise BadValue("NaN is not a value")

    shown = CliRunner().invoke(app, ["fail"])
    assert (shown.exit_code, shown.output) == (main.STATUS_ERROR, "error: NaN is not a value\n")


@pytest.mark.parametrize("word", ["no-such-command", "--no-such-option"])
def test_a_word_it_does_not_know_is_status_2(word: str) -> None:
    assert CliRunner().invoke(main.app, [word]).exit_code == main.STATUS_ERROR
