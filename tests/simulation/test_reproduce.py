"""What `godwit reproduce` needs no traces for: figures, names of papers, and the tables of ploc."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from godwit.errors import GodwitError
from godwit.mobility import possible_values
from godwit.reproduce import Setting, claims_of, logical_mobility_claims
from godwit.reproduce.figures import CAPTION_WIDTH, TITLE_WIDTH, lines


def test_the_tables_of_ploc_are_the_papers_and_a_rule_with_another_step_is_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert logical_mobility_claims.ploc_tables().holds
    monkeypatch.setattr(
        logical_mobility_claims, "steps", lambda elapsed_s, dwell_s, rule: possible_values.steps(elapsed_s, dwell_s)
    )
    assert not logical_mobility_claims.ploc_tables().holds


def test_a_paper_that_is_not_there_is_named_with_those_that_are() -> None:
    with pytest.raises(GodwitError, match=r"no paper 'nosuch'.*mobile, motion, pubmob, rebeca"):
        list(claims_of("nosuch", Setting(folder=Path())))


def test_a_figure_is_a_png_and_an_svg_that_is_the_same_each_time(tmp_path: Path) -> None:
    def drawn(name: str) -> Iterator[bytes]:
        series = {"a": [(0.0, 1.0), (1.0, 10.0)], "b": [(0.0, 2.0), (1.0, 3.0)]}
        for file in lines(tmp_path / name, "figure", series, title="t", x="x", y="y", y_log=True):
            yield file.read_bytes()

    first, second = list(drawn("1")), list(drawn("2"))
    assert first[0].startswith(b"\x89PNG")
    assert first[1] == second[1]


def test_a_long_title_and_a_long_caption_are_broken_into_lines_that_fit(tmp_path: Path) -> None:
    title, caption = "a title that is quite long " * 5, "a caption of very many words " * 12
    _, svg = lines(tmp_path, "figure", {"a": [(0.0, 1.0), (1.0, 2.0)]}, title=title, x="x", y="y", caption=caption)
    drawn = [line.strip(" <!->") for line in svg.read_text().splitlines() if line.strip().startswith("<!--")]
    assert max(map(len, drawn)) <= CAPTION_WIDTH
    assert max(len(line) for line in drawn if "title" in line) <= TITLE_WIDTH
