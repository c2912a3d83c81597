"""`godwit simulate`: what it runs, what it prints, and how a broken law can be seen again."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from click.testing import CliRunner, Result

from godwit.cli import main, simulate_command
from godwit.simulator import Scenario, Summary, Violation, drawn
from godwit.simulator.rare_draws import widely_drawn
from godwit.simulator.scenario import names
from godwit.trace import Record, TraceSink, read

LINE = '[overlay]\nkind = "line"\nbrokers = 3\n'
BROKEN = Violation("nothing lost", "event 4 of p1 did not reach s2", 12.5, "s2")

Run = Callable[[Scenario, int, Any, TraceSink | None], Summary]


class StandIn:
    """In place of the simulator: remembers what it was asked to run, and answers with a summary."""

    def __init__(self, breaks: Callable[[Scenario], bool] = lambda _: False) -> None:
        self.ran: list[tuple[Scenario, int]] = []
        self.breaks = breaks

    def run(
        self, scenario: Scenario, seed: int, progress: Callable[[float], None], trace: TraceSink | None = None
    ) -> Summary:
        self.ran.append((scenario, seed))
        progress(0.5)
        if trace is not None:
            trace.write(0.5, "b0", Record("link_up", "b1"))
        progress(1.0)
        return Summary(
            scenario=scenario.name,
            seed=seed,
            published=10,
            delivered=20,
            lost=int(self.breaks(scenario)),
            messages={"Publish": 30, "Ack": 5},
            moves=2,
            context_changes=7,
            simulated_s=45.0,
            wall_s=0.5,
            violations=(BROKEN,) if self.breaks(scenario) else (),
        )


@pytest.fixture
def put(monkeypatch: pytest.MonkeyPatch) -> Callable[[StandIn], StandIn]:
    """Puts a stand-in where the command looks for the simulator."""

    def replace(stand_in: StandIn) -> StandIn:
        module = ModuleType("godwit.simulator.run")
        module.run = stand_in.run  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "godwit.simulator.run", module)
        return stand_in

    return replace


def simulate(*words: str) -> Result:
    return CliRunner().invoke(main.app, ["simulate", *words])


# ---------------------------------------------------------------- one scenario


def test_the_list_names_each_scenario_on_a_line_of_its_own() -> None:
    found = [json.loads(line) for line in simulate("--list").stdout.splitlines()]
    assert [each["name"] for each in found] == list(names())
    assert {"adhoc", "city", "roam"} <= set(names())
    assert all(each["description"] for each in found)


def test_a_run_is_one_json_document_on_a_pipe(put: Callable[[StandIn], StandIn]) -> None:
    stand_in = put(StandIn())
    shown = simulate("city", "--seed", "5")
    [line] = shown.stdout.splitlines()
    data = json.loads(line)
    assert (shown.exit_code, shown.stderr) == (0, "")
    assert (data["passed"], data["scenario"], data["seed"], data["delivered"]) == (True, "city", 5, 20)
    assert (data["messages_sent"], data["messages_per_second"]) == (35, 70.0)
    assert data["replay"] == "godwit simulate city --seed 5"
    assert [(scenario.name, seed) for scenario, seed in stand_in.ran] == [("city", 5)]


def test_a_file_runs_with_its_changes(put: Callable[[StandIn], StandIn], tmp_path: Path) -> None:
    stand_in = put(StandIn())
    (tmp_path / "my net.toml").write_text(LINE)
    file = str(tmp_path / "my net.toml")
    shown = simulate(file, "--set", "clients.publishers=9", "--set", "faults.crash={per_s = 1}")
    assert stand_in.ran[0][0].clients.publishers == 9
    assert stand_in.ran[0][1] == 1
    expected = f"godwit simulate '{file}' --seed 1 --set clients.publishers=9 --set 'faults.crash={{per_s = 1}}'"
    assert json.loads(shown.stdout)["replay"] == expected


def test_a_trace_is_written_with_what_was_run(put: Callable[[StandIn], StandIn], tmp_path: Path) -> None:
    put(StandIn())
    assert simulate("quench", "--trace", str(tmp_path / "out"), "--seed", "3").exit_code == 0
    assert read(tmp_path / "out")["kind"].to_pylist() == ["link_up"]
    about = json.loads((tmp_path / "out" / "scenario.json").read_text())
    assert (about["seed"], about["scenario"]["name"], about["scenario"]["routing"]["quenching"]) == (3, "quench", True)


def test_a_broken_law_is_status_1_with_seed_and_replaying_command(put: Callable[[StandIn], StandIn]) -> None:
    put(StandIn(lambda _: True))
    shown = simulate("city", "--seed", "5", "--set", "clients.publishers=2")
    assert shown.exit_code == 1
    assert json.loads(shown.stdout)["violations"] == [
        {"law": "nothing lost", "text": "event 4 of p1 did not reach s2", "at": 12.5, "node": "s2"}
    ]
    assert shown.stderr == (
        "broken: nothing lost at 12.500000 s at s2: event 4 of p1 did not reach s2\n"
        "seed 5; replay it with\n"
        "  godwit simulate city --seed 5 --set clients.publishers=2\n"
    )


def test_a_run_that_breaks_off_says_how_to_see_it_again(put: Callable[[StandIn], StandIn]) -> None:
    class Failing(StandIn):
        def run(self, *_: Any) -> Summary:
            raise RuntimeError("a bug")

    put(Failing())
    shown = simulate("city", "--seed", "5")
    assert isinstance(shown.exception, RuntimeError)
    assert shown.stderr == "the simulator failed; replay the run with\n  godwit simulate city --seed 5\n"


@pytest.mark.parametrize(
    "words",
    [
        ["strom"],
        ["city", "--set", "clients.publishrs=3"],
        ["gone.toml"],
        ["--swarm", "2", "--set", "clients.publishers=-1"],
    ],
)
def test_a_scenario_that_cannot_be_run_is_status_2_and_nothing_runs(
    words: list[str], put: Callable[[StandIn], StandIn]
) -> None:
    stand_in = put(StandIn())
    shown = simulate(*words)
    assert (shown.exit_code, shown.stdout) == (2, "")
    assert shown.stderr.startswith("error: ")
    assert stand_in.ran == []


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["city", "--list"],
        ["city", "--swarm", "3"],
        ["--swarm", "3", "--swarm-number", "1"],
        ["--swarm", "3", "--trace", "out"],
        ["--swarm", "0"],
        ["city", "--seed", "-1"],
    ],
)
def test_words_that_do_not_go_together_are_status_2(words: list[str]) -> None:
    assert simulate(*words).exit_code == 2


# ---------------------------------------------------------------- a swarm


def test_a_swarm_runs_what_is_drawn_and_adds_it_up(put: Callable[[StandIn], StandIn]) -> None:
    stand_in = put(StandIn())
    shown = simulate("--swarm", "4", "--seed", "7")
    data = json.loads(shown.stdout)
    assert (shown.exit_code, data["passed"], data["runs"], data["published"], data["messages_sent"]) == (
        0,
        True,
        4,
        40,
        140,
    )
    assert (data["moves"], data["walked"], data["context_changes"]) == (8, 0, 28)
    assert stand_in.ran == [widely_drawn(7, number) for number in range(4)]


def test_a_swarm_stops_at_the_first_that_breaks_a_law_and_says_how_to_replay_it(
    put: Callable[[StandIn], StandIn],
) -> None:
    stand_in = put(StandIn(lambda scenario: scenario.name == "swarm-2"))
    shown = simulate("--swarm", "9", "--seed", "7", "--set", "run.settle_s=9")
    data = json.loads(shown.stdout)
    assert (shown.exit_code, data["passed"], data["runs"], len(stand_in.ran)) == (1, False, 3, 3)
    replay = "godwit simulate --swarm-number 2 --seed 7 --set run.settle_s=9"
    assert data["broken"]["replay"] == replay
    assert shown.stderr.endswith(f"seed 7; replay it with\n  {replay}\n")


def test_the_replaying_command_runs_the_very_same(put: Callable[[StandIn], StandIn]) -> None:
    stand_in = put(StandIn())
    simulate("--swarm", "3", "--seed", "7", "--set", "run.settle_s=9")
    simulate("--swarm-number", "2", "--seed", "7", "--set", "run.settle_s=9")
    assert stand_in.ran[3] == stand_in.ran[2]


# ---------------------------------------------------------------- on a terminal


def test_on_a_terminal_there_is_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    summary = StandIn(lambda _: True).run(drawn(1, 0)[0], 3, lambda _: None)
    simulate_command._show(summary)
    shown = capsys.readouterr().out
    assert "swarm-0, seed 3" in shown
    for row in (["every law held", "NO"], ["lost", "1"], ["Publish (messages)", "30"], ["simulated s", "45.0"]):
        assert any(all(word in line for word in row) for line in shown.splitlines()), row
    assert "latency" not in shown
    assert "moves" in shown
    assert "walked" not in shown  # nobody did


def test_every_field_of_an_outcome_is_below_one_heading() -> None:
    fields = [name for names in simulate_command.GROUPS.values() for name in names]
    shown_elsewhere = {"passed", "scenario", "seed", "fire", "violations"}
    assert sorted(fields) == sorted(set(Summary(scenario="x", seed=1).to_data()) - shown_elsewhere)


def test_rows_are_below_headings_and_a_heading_without_rows_is_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    simulate_command._show(Summary(scenario="x", seed=1, published=3, messages={"Publish": 2}))
    shown = capsys.readouterr().out
    assert [word for word in ("deliveries", "traffic", "the run") if word not in shown] == []
    assert "faults" not in shown


def test_a_fire_stands_at_the_top_of_the_table_in_plain_words(capsys: pytest.CaptureFixture[str]) -> None:
    fire = {"alerts": 12, "orders": 24, "sprinklers_on": 57, "sprinklers": 120, "signals": 48, "judged": 2592}
    fire |= {"switched_left": 360, "switched_right": 213, "unsure": 0, "all_correct": True}
    simulate_command._show(Summary(scenario="fire", seed=1, published=36, fire=fire))
    shown = capsys.readouterr().out
    rows = [line for line in shown.splitlines() if line.startswith("│")]
    for row, words in zip(
        rows, ("law held", "building on fire", "acted correctly", "judged", "alerts", "57 of 120", "360"), strict=False
    ):
        assert words in row
    assert "fire sprinklers" not in shown


def test_many_violations_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    summary = Summary(scenario="x", seed=1, violations=(BROKEN,) * 13)
    simulate_command._report(summary, 1, "godwit simulate x --seed 1")
    shown = capsys.readouterr().err.splitlines()
    assert len(shown) == 13
    assert shown[10] == "… and 3 more"


# ---------------------------------------------------------------- the simulator itself


TIMES = ("wall_s", "messages_per_second")


@pytest.mark.slow
def test_two_runs_of_one_seed_write_the_same_bytes_however_texts_are_hashed(tmp_path: Path) -> None:
    written = []
    for seed in ("1", "2"):
        shorter = ["--set", "run.duration_s=4", "--set", "faults.until_s=6"]
        words = ["simulate", "storm", "--seed", "4", *shorter, "--trace", str(tmp_path / seed)]
        code = f"import sys\nsys.argv = ['godwit', *{words!r}]\nfrom godwit.cli.main import app\napp()"
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        ran = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, check=False, text=True)
        outcome = json.loads(ran.stdout)
        files = [(tmp_path / seed / name).read_bytes() for name in ("trace.parquet", "scenario.json")]
        written.append((files, {key: value for key, value in outcome.items() if key not in TIMES}))
    assert written[0] == written[1]
    assert read(tmp_path / "1").num_rows > 1_000
