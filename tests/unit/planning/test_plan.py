"""A whole plan, from a small trace that comes with Godwit."""

import json
import sys
from importlib.resources import files
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from godwit.cli.main import app
from godwit.planning import evidence
from godwit.runtime.configuration import load
from godwit.simulator.scenario import load as load_scenario

SCENARIOS = Path(str(files("godwit.simulator").joinpath("scenarios")))
FERRIES, PIERS = SCENARIOS / "ferries.csv", SCENARIOS / "ferries_piers.csv"


def plan(*words: object) -> Result:
    return CliRunner().invoke(app, ["plan", *map(str, words)])


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[dict[str, object]]]:
    out = tmp_path_factory.mktemp("plan") / "out"
    choices = ("--mode", "relocate", "--mode", "named", "--reduction", "flooding", "--reduction", "covering")
    found = plan(FERRIES, "--brokers", PIERS, "--radius", 700, "--out", out, *choices)
    assert found.exit_code == 0, found.output
    return out, [json.loads(line) for line in found.stdout.splitlines()]


def test_a_plan_has_a_line_for_each_subject(made: tuple[Path, list[dict[str, object]]]) -> None:
    _, lines = made
    parts = [line["part"] for line in lines]
    assert parts.count("broker") == 8
    assert parts.count("link") == 7
    assert parts.count("evidence") == 2 * 2
    trace = lines[0]
    assert (trace["clients"], trace["fixes"], trace["left_out"]) == (10, 574, {"impossible speed": 1})
    assert trace["covered"] == 0.838
    assert all(line["lost"] == 0 and line["safe"] for line in lines if line["part"] == "evidence")
    choice = lines[parts.index("choice")]
    assert choice["mode"] == "relocate"


def test_the_configuration_files_are_those_of_a_network(made: tuple[Path, list[dict[str, object]]]) -> None:
    out, lines = made
    links = {(line["a"], line["b"]) for line in lines if line["part"] == "link"}
    found = {file.stem: load(file, {}, ()) for file in (out / "brokers").glob("*.toml")}
    assert sorted(found) == [f"b{number}" for number in range(1, 9)]
    ports = {name: configuration.settled.listen.native for name, configuration in found.items()}
    assert len(set(ports.values())) == 8
    for name, configuration in found.items():
        neighbours = configuration.neighbours()
        expected = {b if a == name else a for a, b in links if name in (a, b)}
        assert set(neighbours) == expected
        assert all(neighbour.address == ports[peer] for peer, neighbour in neighbours.items())


def test_the_evidence_can_be_run_again(made: tuple[Path, list[dict[str, object]]]) -> None:
    out, lines = made
    row = next(line for line in lines if line["part"] == "evidence")
    scenario = load_scenario(str(out / "evidence" / "scenario.toml"))
    assert scenario.clients.publishers + scenario.clients.subscribers == 10
    words = str(row["replay"]).split()[1:]
    again = CliRunner().invoke(app, words)
    assert json.loads(again.stdout)["messages_sent"] == row["messages"]


def test_a_plan_is_replaced_and_other_folders_are_left_alone(
    made: tuple[Path, list[dict[str, object]]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evidence, "DURATION_S", 1.0)
    out, _ = made
    (out / "brokers" / "old.toml").write_text("")
    quick = ("--radius", 700, "--mode", "relocate", "--reduction", "covering", "--out")
    assert plan(FERRIES, "--brokers", PIERS, *quick, out).exit_code == 0
    assert not (out / "brokers" / "old.toml").exists()
    (tmp_path / "mine.txt").write_text("keep")
    found = plan(FERRIES, "--brokers", PIERS, *quick, tmp_path)
    assert found.exit_code == 2
    assert "has other files" in found.stderr


def test_addresses_in_the_file_of_positions_are_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evidence, "DURATION_S", 1.0)
    brokers = tmp_path / "brokers.csv"
    brokers.write_text(
        "broker,lon,lat,radius_m,address\n"
        "north,9.38,47.63,2000,10.0.0.1:7077\n"
        '"the ""south"", west",9.38,47.61,2000,10.0.0.2:7077\n'
    )
    out = tmp_path / "out"
    found = plan(FERRIES, "--brokers", brokers, "--out", out, "--mode", "relocate", "--reduction", "covering")
    assert found.exit_code == 0, found.output
    north = load(out / "brokers" / "north.toml", {}, ())
    assert {name: each.address for name, each in north.neighbours().items()} == {'the "south", west': "10.0.0.2:7077"}
    assert north.settled.listen.native == "0.0.0.0:7077"


def test_one_broker_is_planned_without_a_simulation(tmp_path: Path) -> None:
    brokers = tmp_path / "brokers.csv"
    brokers.write_text("broker,lon,lat,radius_m\nb1,9.38,47.63,50000\n")
    found = plan(FERRIES, "--brokers", brokers)
    assert found.exit_code == 0
    lines = [json.loads(line) for line in found.stdout.splitlines()]
    assert lines[0]["covered"] == 1.0
    assert next(line for line in lines if line["part"] == "choice")["reduction"] == "covering"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--radius", "700", "--mode", "relocat"], "mode 'relocat': allowed is relocate"),
        (["--radius", "700", "--reduction", "none"], "reduction 'none': allowed is"),
        (["--radius", "700", "--wanted", "2"], "wanted is 2: allowed is a share above 0 and up to 1"),
        (["--radius", "700", "--rate", "0"], "0 events a second"),
        ([], "no column 'radius_m'"),
    ],
)
def test_wrong_wishes_are_told_at_once(words: list[str], told: str) -> None:
    found = plan(FERRIES, "--brokers", PIERS, *words)
    assert found.exit_code == 2
    assert told in found.stderr


def test_broken_files_are_named_with_their_line(tmp_path: Path) -> None:
    file = tmp_path / "broken.csv"
    file.write_text("time,id,lon,lat\nyesterday,van,8,47\n")
    found = plan(file, "--brokers", PIERS, "--radius", 700)
    assert (found.exit_code, "broken.csv:2: time is 'yesterday'" in found.stderr) == (2, True)
    file.write_text("")
    found = plan(file, "--brokers", PIERS, "--radius", 700)
    assert (found.exit_code, "no column 'time'" in found.stderr) == (2, True)
    brokers = tmp_path / "brokers.csv"
    brokers.write_text("broker,lon,lat\n../b1,9,47\nb2,9,48\n")
    found = plan(FERRIES, "--brokers", brokers, "--radius", 100_000, "--mode", "relocate", "--reduction", "covering")
    assert (found.exit_code, "'../b1'" in found.stderr) == (2, True)


def test_a_terminal_gets_tables(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(evidence, "DURATION_S", 1.0)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "160")
    words = ["plan", str(FERRIES), "--brokers", str(PIERS), "--radius", "700", "--mode", "relocate"]
    with pytest.raises(SystemExit) as ended:
        app([*words, "--reduction", "covering"])
    assert ended.value.code == 0
    shown = capsys.readouterr().out
    for text in ("10 clients, 574 positions", "read without Spark", "coverage 83.8%", "b1 – b2", "relocate", "linked"):
        assert text in shown
