"""The root of the command line: help, version, and errors as one message and an exit status."""

import subprocess
import sys

import pytest
from click.testing import CliRunner

from godwit import __version__
from godwit.cli import main, statuses
from godwit.errors import BadValue


def test_help_names_every_command_and_the_exit_statuses() -> None:
    shown = CliRunner().invoke(main.app, ["--help"])
    assert shown.exit_code == 0
    for word in ("demo", "match", "filter", "--version", "Exit status"):
        assert word in shown.output


def test_version_is_that_of_the_package() -> None:
    assert CliRunner().invoke(main.app, ["--version"]).output == f"godwit {__version__}\n"


def test_an_error_raised_on_purpose_is_one_message_and_status_2() -> None:
    app = main.Commands()

    @app.add()
    def fail() -> None:
        raise BadValue("NaN is not a value")

    shown = CliRunner().invoke(app, ["fail"])
    assert (shown.exit_code, shown.output) == (statuses.STATUS_ERROR, "error: NaN is not a value\n")


INTERRUPTED_WHILE_IT_LOADS = """
import builtins
load = builtins.__import__

def interrupted(name, *more):
    if name == "{name}":
        raise KeyboardInterrupt
    return load(name, *more)

builtins.__import__ = interrupted
from godwit.cli.main import app
"""


@pytest.mark.parametrize("name", ["click", "godwit.cli", "godwit.errors"])
def test_control_c_while_the_command_line_loads_is_a_word_and_status_130(name: str) -> None:
    code = INTERRUPTED_WHILE_IT_LOADS.replace("{name}", name)
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False, text=True)
    assert (ran.returncode, ran.stderr) == (statuses.STATUS_INTERRUPTED, "stopped\n")


def test_control_c_before_a_command_is_known_is_a_word_and_status_130(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("godwit.cli.main.Group.make_context", interrupted)
    with pytest.raises(SystemExit, match=str(statuses.STATUS_INTERRUPTED)):
        main.app(["--version"])
    assert capsys.readouterr().err == "stopped\n"


@pytest.mark.parametrize("word", ["no-such-command", "--no-such-option"])
def test_a_word_it_does_not_know_is_status_2(word: str) -> None:
    assert CliRunner().invoke(main.app, [word]).exit_code == statuses.STATUS_ERROR


@pytest.mark.parametrize(("word", "meant"), [("subscribe", "'sub'"), ("publish", "'pub'"), ("sesions", "'sessions'")])
def test_a_command_that_is_nearly_named_is_suggested(word: str, meant: str) -> None:
    ran = CliRunner().invoke(main.app, [word, "x"])
    assert ran.exit_code == statuses.STATUS_ERROR
    assert f"No such command '{word}'. Did you mean {meant}?" in ran.stderr
