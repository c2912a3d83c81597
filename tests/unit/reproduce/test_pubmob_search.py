"""The search: which settings it tries, and what it says about conditions that exclude each other."""

from pathlib import Path
from random import Random

import msgspec

from godwit.reproduce.pubmob_bounds import MODES, Condition
from godwit.reproduce.pubmob_search import (
    AXES,
    BEGIN,
    COUNTED,
    Choice,
    Trial,
    best,
    conflicts,
    met_at_once,
    neighbours,
    next_choices,
    show,
    write,
)
from godwit.simulator.scenario import named, with_changes

NAMES = ("long", "quick", "cheap")


def trial(choice: Choice, *shortfalls: float) -> Trial:
    figures = dict.fromkeys(MODES, 0.5)
    conditions = tuple(Condition("P3", name, by) for name, by in zip(NAMES, shortfalls, strict=False))
    return Trial(
        choice=choice,
        counted=COUNTED[0],
        cost=figures,
        stands_after_s=figures,
        first_delivered=figures,
        median_s=figures,
        conditions=conditions,
    )


def test_every_choice_is_a_scenario() -> None:
    for choice in (*BEGIN, *neighbours(BEGIN[0])):
        made = with_changes(named("city"), [f"{key}={value}" for key, value in choice.changes().items()])
        assert made.overlay.event_bytes == choice.event_bytes
        assert made.overlay.processing_ms == choice.processing_ms
        assert made.clients.roaming.phase_s == choice.phase_s


def test_a_neighbour_differs_in_one_step_along_one_axis() -> None:
    for other in neighbours(BEGIN[1]):
        differs = [name for name in AXES if getattr(other, name) != getattr(BEGIN[1], name)]
        assert len(differs) == 1
        places = [AXES[differs[0]].index(getattr(each, differs[0])) for each in (other, BEGIN[1])]
        assert abs(places[0] - places[1]) == 1


def test_it_begins_with_what_is_known_then_draws_then_goes_on_from_the_best() -> None:
    begins = next_choices([], [], Random(1), 4, 8)
    assert tuple(begins[: len(BEGIN)]) == BEGIN
    assert next_choices([], [], Random(1), 4, 8) == begins  # the same draw
    good, bad = trial(BEGIN[0], 0.1, 0.0), trial(BEGIN[1], 0.9, 0.9)
    known = [BEGIN[0], BEGIN[1]]
    found = next_choices(known, [good, bad] * 4, Random(1), 4, 8)
    assert found == [each for each in neighbours(BEGIN[0]) if each not in known][:4]


def test_no_choice_is_tried_twice_and_none_past_the_bound() -> None:
    known = list(BEGIN)
    found = next_choices(known, [], Random(1), 2, 100)
    assert len(found) == 2
    assert not set(found) & set(known)


def test_conditions_that_no_setting_meets_together_are_named() -> None:
    trials = [trial(BEGIN[0], 0.0, 0.5, 0.0), trial(BEGIN[1], 0.2, 0.0, 0.0)]
    assert met_at_once(trials) == {"long": 1, "cheap": 2, "quick": 1}
    assert conflicts(trials) == [("long", "quick")]
    assert conflicts([*trials, trial(BEGIN[0], 0.0, 0.0, 0.7)]) == []


def test_the_best_has_the_papers_number_of_publishers() -> None:
    fewer = msgspec.structs.replace(BEGIN[0], publishers=50)
    assert best([trial(fewer, 0.0, 0.0), trial(BEGIN[0], 0.3, 0.3)]).choice == BEGIN[0]


def test_trials_are_kept_with_their_format_and_drawn(tmp_path: Path) -> None:
    trials = [trial(BEGIN[0], 0.0, 0.5)]
    kept = msgspec.json.decode(write(tmp_path, trials, 3).read_bytes())
    assert (kept["format"], kept["seed"], len(kept["trials"])) == (2, 3, 1)
    assert all(path.stat().st_size for path in show(tmp_path, trials))
