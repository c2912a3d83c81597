"""What `godwit reproduce` needs no traces for: figures, names of papers, and the tables of ploc."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from godwit.errors import GodwitError
from godwit.mobility import possible_values
from godwit.reproduce import Setting, claims_of, logical_mobility_claims, pubmob
from godwit.reproduce.claims import Claim
from godwit.reproduce.figures import CAPTION_WIDTH, TITLE_WIDTH, lines
from godwit.reproduce.report import overall, spread, write_report


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


def test_a_claim_is_graded_by_the_plain_reading_first() -> None:
    def graded(**more: Any) -> str:
        return Claim(key="X1", where="§1", claim="", paper="", ours="", **more).grade

    assert graded(holds=True) == "holds"
    assert graded(holds=True, reading="another", reading_holds=True) == "holds"
    assert graded(holds=False, reading="another", reading_holds=True) == "holds under a stated reading"
    assert graded(holds=False, reading="another") == "does not hold"
    assert graded(holds=False, reading="another", reading_holds=True, undecided="too small") == "not decided"


def test_a_cost_that_goes_on_growing_does_not_settle() -> None:
    assert pubmob._settles({0: 0.0, 2: 1.0, 5: 2.1, 8: 2.2})
    assert not pubmob._settles({0: 0.0, 2: 1.0, 5: 4.2, 8: 7.1})
    assert not pubmob._settles({0: 1.0, 2: 1.0, 5: 1.0, 8: 1.0})


def test_the_worst_seed_decides_and_numbers_are_ranges() -> None:
    assert overall(["holds", "holds"]) == "holds"
    assert overall(["holds", "holds under a stated reading"]) == "holds under a stated reading"
    assert overall(["holds", "does not hold", "not decided"]) == "does not hold"
    assert spread(["a 1,200 b2 0.5", "a 900 b2 0.5"]) == "a 900 to 1,200 b2 0.5"
    assert spread(["same 1"] * 3) == "same 1"
    assert spread(["one", "other 1"]) == "one\nother 1"


def test_the_report_has_every_claim_with_bound_grade_and_figures(tmp_path: Path) -> None:
    def claim(holds: bool) -> Claim:
        more: Any = {"bound": "at least <100>", "reading": "ten", "reading_holds": True}
        return Claim(key="R5", where="§5.4", claim="saves", paper="orders", ours=f"1/{50 + holds}", holds=holds, **more)

    (tmp_path / "rebeca" / "seed_1").mkdir(parents=True)
    (tmp_path / "rebeca" / "seed_1" / "fig9.png").write_bytes(b"")
    held = Claim(key="R1", where="§5", claim="", paper="", ours="", holds=True, note="one step more")
    runs = {1: [held, claim(True)], 2: [held, claim(False)]}
    text = write_report(tmp_path, {"rebeca": runs}, True, "1").read_text()
    assert "<summary>note</summary><small>one step more" in text
    for said in ("at least &lt;100&gt;", "1/50 to 51", "1 of 2 holds", "rebeca/seed_1/fig9.png", "Seeds: 1, 2."):
        assert said in text
    assert "class='grade reading'>holds under a stated reading" in text


def test_figures_stand_in_the_order_of_their_numbers_with_their_names(tmp_path: Path) -> None:
    (tmp_path / "rebeca").mkdir()
    for name in ("fig10_late", "fig9_early", "parts"):
        (tmp_path / "rebeca" / f"{name}.png").write_bytes(b"")
    text = write_report(tmp_path, {"rebeca": {}}, True, "1").read_text()
    places = [text.index(f"<figcaption>rebeca/{name}.png") for name in ("fig9_early", "fig10_late", "parts")]
    assert places == sorted(places)
