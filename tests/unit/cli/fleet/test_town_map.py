"""The live screen of the demonstration: cars are dots on a map, and rates are bars."""

from godwit.cli.fleet.town import BROKERS
from godwit.cli.fleet.town_map import COLUMNS, ROWS, History, cell, sparkline, town_map


def test_the_map_has_every_broker_by_name_and_a_dot_for_each_car() -> None:
    lines = town_map([((8.55, 47.385), "east"), ((8.52, 47.365), "west")], []).plain.split("\n")
    assert [len(line) for line in lines] == [COLUMNS] * ROWS
    assert [name for name in BROKERS if name not in "\n".join(lines)] == []
    assert "".join(lines).count("●") == 2


def test_north_is_up_and_east_is_right_and_what_is_outside_is_at_the_edge() -> None:
    assert cell(BROKERS["north"])[0] < cell(BROKERS["centre"])[0] < cell(BROKERS["south"])[0]
    assert cell(BROKERS["west"])[1] < cell(BROKERS["centre"])[1] < cell(BROKERS["east"])[1]
    assert cell((0.0, 0.0)) == (ROWS - 1, 0)


def test_a_car_that_moves_is_elsewhere_and_a_killed_broker_is_red() -> None:
    before, after = (town_map([(place, "west")], []).plain for place in ((8.52, 47.365), (8.525, 47.368)))
    assert before != after
    styles = {style for _, style in town_map([], ["east"]).pieces}
    assert "bold white on red" in styles


def test_a_sparkline_has_a_bar_for_each_value() -> None:
    assert sparkline([0, 7, 14]) == "▁▅█"
    assert sparkline([0, 0]) == "▁▁"
    assert sparkline([]) == ""


def test_a_history_keeps_the_growth_of_the_last_looks() -> None:
    history = History(2)
    for count in (5, 8, 8, 12):
        history.look({"published": count})
    assert list(history.growth["published"]) == [0, 4]
