"""The benchmarks run, their yardstick is right, and a wrong answer is noticed. Sizes are tiny: no figure counts."""

import gc
import json
import subprocess
import sys
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import matching, measuring, memory, profile_matching, simulator
from benchmarks.matching import Bench, Disagreement, Part, Scale
from benchmarks.measuring import Machine, this_machine, timed
from benchmarks.numpy_evaluation import NumpyEvaluator
from benchmarks.own_workload import MATCHES, growing_subscriptions, growing_workload, own_workload
from benchmarks.reporting import Anchor, Row, json_line, markdown, print_tables
from benchmarks.workloads import SHARED_WORKLOADS, Expression, Workload, columns_of, shared_makers
from godwit.filters import event, parse
from godwit.matching import IndexMatcher, NaiveMatcher
from godwit.simulator.run import Simulation
from godwit.simulator.workload_files import filter_of_expression as filter_of

TINY = Scale(300, 20, 60, (200, 400), 300, 100, 100, 20, 1.0, repeat=1)
MACHINE = Machine("A chip", 2, "3.11", "2", "0", "abc")
SHARED = shared_makers(SHARED_WORKLOADS) or {}
GENERATE = """
def w1(nsubs=9, nevents=9):
    wanted = [["or", ["=", "x", n % 7], ["not", [">", "y", n]]] for n in range(nsubs)]
    return {}, wanted, [{"x": n % 9} for n in range(nevents)]
w2u = w2z = w3 = w1
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A place with a generator of workloads, so that nothing here depends on the shared one."""
    (tmp_path / "generate.py").write_text(GENERATE)
    return tmp_path


@pytest.fixture
def disturbed(monkeypatch):
    """No search for garbage before each timing: no figure counts, and a run of tests leaves much to search."""
    monkeypatch.setattr(measuring, "undisturbed", nullcontext)


@pytest.mark.usefixtures("disturbed")
@pytest.mark.parametrize("part", Part)
def test_each_part_gives_its_figures(part, folder):
    rows = list(Bench(TINY, folder, lambda message: None).rows(part))
    assert rows
    for row in rows:
        assert row.figure > 0 or part is Part.MEMORY
        assert row.verdict in ("", "not at this size")
        assert json.loads(json_line(row, MACHINE))["figure"] == row.figure


@pytest.mark.parametrize("name", ["own", "growing", *SHARED])
def test_the_yardstick_finds_what_the_oracle_finds(name):
    made = {"own": own_workload, "growing": growing_workload, **SHARED}[name](300, 60)
    naive, evaluator = NaiveMatcher(), NumpyEvaluator(made.expressions)
    naive.add_many(made.filters())
    found = [naive.match(each) for each in made.events()]
    assert found == [evaluator.match(attributes).tolist() for attributes in made.attributes]
    assert any(found)


def test_the_yardstick_knows_several_values_and_negation():
    expressions: list[Expression] = [
        ["=", "t", "a"],
        ["!=", "t", "a"],
        ["not", ["=", "t", "a"]],
        ["not", ["!=", "t", "a"]],
    ]
    naive, evaluator = NaiveMatcher(), NumpyEvaluator(expressions)
    naive.add_many(enumerate(map(filter_of, expressions)))
    for value in ("a", "b", ["a", "b"], ["b", "c"], None):
        assert evaluator.match({"t": value}).tolist() == naive.match(event({"t": value}))
    assert filter_of(expressions[0]) == parse("t = 'a'")
    assert filter_of(expressions[2]) == parse("NOT t = 'a'")


def test_a_matcher_that_misses_a_subscription_is_caught():
    made = own_workload(300, 60)
    matcher, found = IndexMatcher(), [NumpyEvaluator(made.expressions).match(each).tolist() for each in made.attributes]
    matcher.add_many(made.filters())
    matching.agree_with(matcher, made.events(), found, "own")
    matcher.remove(next(ids for ids in found if ids)[0])
    with pytest.raises(Disagreement, match="naive evaluation and IndexMatcher"):
        matching.agree_with(matcher, made.events(), found, "own")


@pytest.mark.parametrize("count", [500, 5_000])
def test_matches_stay_the_same_while_subscriptions_grow(count):
    evaluator = NumpyEvaluator(growing_subscriptions(count))
    attributes = growing_workload(count, 400).attributes
    assert sum(len(evaluator.match(each)) for each in attributes) / 400 == pytest.approx(MATCHES, rel=0.15)


def test_columns_are_arrays_only_where_every_event_has_a_number():
    columns = columns_of([{"x": 1, "y": 2, "b": True, "s": "a"}, {"x": 2.5, "b": False, "s": "b"}])
    assert {name: type(column).__name__ for name, column in columns.items()} == {
        "x": "ndarray", "y": "list", "b": "ndarray", "s": "list"
    }  # fmt: skip
    assert columns["y"] == [2, None]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, matching.__file__, "--quick", "--repeat=1", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True)


def test_without_shared_workloads_it_says_so_and_measures_our_own(tmp_path):
    done = run("--workloads", str(tmp_path), "--only", "own", "--only", "W1")
    assert "the shared workloads are skipped" in done.stderr
    assert [json.loads(line)["name"] for line in done.stdout.splitlines()] == ["own", "own-batch"]


ROWS = [
    Row("W1", "W1: formulas", 4_000.0, "events/s", Anchor(3_600, 72), naive=80.0),
    Row("memory", "bytes", 301.0, "bytes", Anchor(300), at_most=True, share=0.5),
]


def test_a_verdict_compares_with_the_target():
    assert [row.verdict for row in ROWS] == ["reached", "missed"]
    assert (ROWS[0].ratio, ROWS[0].ratio_wanted) == (50, 50)
    assert replace(ROWS[0], figure=3_599.0).verdict == "missed"
    assert replace(ROWS[0], is_full=False).verdict == "not at this size"


def test_tables_and_markdown_show_every_row(capsys):
    print_tables(ROWS, MACHINE)
    shown = capsys.readouterr().out
    assert "4,000" in shown
    assert "take this figure again" in shown
    assert "| W1: formulas | 4,000 | 50 | A chip | abc |" in markdown(ROWS, MACHINE)
    assert "| bytes | 301 | A chip | abc |" in markdown(ROWS, MACHINE)


def test_a_machine_and_a_timing_can_be_taken():
    assert this_machine().cores >= 1
    assert 0 <= timed(lambda: sum(range(10_000))).share <= 1
    gc.freeze()  # again: see tests/conftest.py


def test_all_that_an_index_holds_is_counted():
    less, more = (memory.reachable_bytes(memory.built(own_workload(count, 1))) for count in (100, 2_000))
    assert more > less + 1_900 * 50
    assert memory.reachable_bytes([bytes(10_000)]) > 10_000


@pytest.mark.usefixtures("disturbed")
def test_the_profile_divides_the_whole(capsys):
    profile_matching.profile("own", subscriptions=200, events=20)
    assert "kernel" in capsys.readouterr().out


def test_a_workload_numbers_its_subscriptions():
    assert [id for id, _ in Workload([["exists", "x"], ["exists", "y"]], []).filters()] == [0, 1]


def test_the_simulator_is_measured_on_the_overlay_that_its_target_speaks_of():
    chosen = simulator.scenario(500, 1.0)
    assert (chosen.clients.publishers, chosen.clients.subscribers, chosen.routing.reduction) == (50, 500, "covering")
    assert simulator.bare_loop(1_000) > 0


def test_messages_are_counted_without_and_with_acknowledgements():
    simulation = Simulation(simulator.scenario(5, 0.2), simulator.SEED)
    simulation.plan()
    simulation.world.run(simulation.scenario.ends_s)
    without, with_them = simulator.messages_handled(simulation)
    assert 0 < without < with_them
    assert simulator.match_us(simulation) > 0
