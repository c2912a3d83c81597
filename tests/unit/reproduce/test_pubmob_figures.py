"""Figures of `pubmob`: an algorithm looks the same, whichever others are beside it."""

from pathlib import Path

import msgspec

from godwit.reproduce.claims import Setting
from godwit.reproduce.figures import DRAWING_SUFFIX, Drawing, Look
from godwit.reproduce.pubmob_figures import LOOKS, draw

LINE = [(0.0, 1.0), (1.0, 2.0)]


def looks_of(folder: Path, *labels: str) -> dict[str, Look]:
    draw(Setting(folder=folder), "figure", dict.fromkeys(labels, LINE), title="t", x="x", y="y")
    return msgspec.json.decode((folder / f"figure{DRAWING_SUFFIX}").read_bytes(), type=Drawing).looks


def test_an_algorithm_looks_the_same_in_all_figures(tmp_path: Path) -> None:
    few, all_of_them = looks_of(tmp_path, "STANDARD", "DELAYED", "PROXY"), looks_of(tmp_path, *LOOKS)
    assert all_of_them == LOOKS
    assert few == {label: LOOKS[label] for label in few}


def test_a_second_line_of_an_algorithm_is_another_one_and_a_line_of_none_is_left_to_the_figure(tmp_path: Path) -> None:
    found = looks_of(tmp_path, "STANDARD, with probes", "STANDARD, without probes", "25 km/h")
    assert found.keys() == {"STANDARD, with probes", "STANDARD, without probes"}
    assert found["STANDARD, with probes"] == LOOKS["STANDARD"]
    assert found["STANDARD, without probes"].dashes == ":"
