"""A console writes the codes of styles for people alone."""

import io
import sys

import pytest

from godwit.cli.terminal import Console, Table, Text


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("environment", "is_screen", "written"),
    [
        ({"TERM": "xterm"}, True, "\x1b[1ma\x1b[0m\n"),
        ({"TERM": "dumb"}, True, "a\n"),
        ({"TERM": "xterm", "NO_COLOR": "1"}, True, "a\n"),
        ({"TERM": "xterm"}, False, "a\n"),
        ({"TERM": "xterm", "FORCE_COLOR": "1"}, False, "\x1b[1ma\x1b[0m\n"),
    ],
)
def test_styles_are_for_terminals_that_want_them(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], is_screen: bool, written: str
) -> None:
    for name in ("TERM", "NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    stream = Screen() if is_screen else io.StringIO()
    monkeypatch.setattr(sys, "stdout", stream)
    Console().print(Text("a", "bold"))
    assert stream.getvalue() == written


def test_text_is_wrapped_unless_the_terminal_is_to_do_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "6")
    Console().print("one [bold]")
    Console().print("one two", soft_wrap=True)
    table = Table.grid()
    table.add_row("one two")
    Console().print(table, soft_wrap=True)
    assert capsys.readouterr().out == "one\n[bold]\none two\none\ntwo\n"
