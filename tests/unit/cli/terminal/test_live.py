"""Pictures and bars change in place."""

import pytest

from godwit.cli.terminal import Console, Live, Progress, Task, Text
from godwit.cli.terminal.live import CLEAR_BELOW, CLEAR_LINE, HIDE, SHOW, clock_of, percentage


@pytest.fixture(autouse=True)
def screen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal of 60 columns, without colours."""
    for name, value in {"TERM": "xterm", "COLUMNS": "60", "LINES": "10", "NO_COLOR": "1"}.items():
        monkeypatch.setenv(name, value)


def test_the_last_picture_stays_and_one_that_is_transient_is_removed(capsys: pytest.CaptureFixture[str]) -> None:
    drawn: list[str] = []

    def picture(at: float) -> Text:
        drawn.append(f"picture {len(drawn)}")
        return Text(drawn[-1])

    with Live(Console(), picture, transient=False):
        pass
    written = capsys.readouterr().out
    assert written.startswith(HIDE)
    assert written.endswith(f"{CLEAR_LINE}{drawn[-1]}\n{CLEAR_BELOW}{SHOW}")
    with Live(Console(), picture):
        pass
    assert capsys.readouterr().out.endswith(f"{CLEAR_BELOW}{SHOW}")


def test_on_a_terminal_that_cannot_move_only_what_stays_is_printed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "dumb")
    with Live(Console(), lambda at: Text("end"), transient=False) as live:
        live.print("news")
    with Live(Console(), lambda at: Text("gone")):
        pass
    assert capsys.readouterr().out == "news\nend\n"


def test_bars_show_what_is_done(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress(lambda task: f"{task.share:.0%} {task.fields['unit']}", transient=False) as bars:
        task = bars.add_task("events", total=8, unit="MB")
        bars.add_task("all", total=None, unit="")
        bars.advance(task, 2)
        bars.update(task, completed=4, description="more")
        bars.print("a line above")
    written = capsys.readouterr().err
    end = written.rpartition("\x1b[2A\r")[2]
    assert f"{CLEAR_LINE}more {'━' * 40} 50% MB\n" in end
    assert f"{CLEAR_LINE} all {'━' * 40} 0% \n" in end
    assert "a line above\n" in written


def test_disabled_bars_write_only_the_lines_that_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress(disable=True) as bars:
        bars.advance(bars.add_task("events", total=8))
        bars.print("a bad line")
    assert capsys.readouterr().err == "a bad line\n"


def test_a_picture_is_cut_where_the_screen_ends(capsys: pytest.CaptureFixture[str]) -> None:
    with Live(Console(), lambda at: Text("\n".join(map(str, range(30))))) as live:
        live.print("x")
    written = capsys.readouterr().out
    assert f"{CLEAR_LINE}8\n" in written
    assert f"{CLEAR_LINE}9\n" not in written


def test_a_task_tells_its_share_and_its_time() -> None:
    task = Task("events", 4)
    task.completed = 3
    assert percentage(task) == " 75%  0:00:00"
    assert (clock_of(3_725), Task("x", None).share) == ("1:02:05", 0)
