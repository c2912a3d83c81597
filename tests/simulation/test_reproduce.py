"""The papers' claims: each gives one row, what holds is seen to hold, and what breaks it is seen to break it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from godwit.client.quenching import Outbox
from godwit.errors import GodwitError
from godwit.mobility import locations
from godwit.reproduce import PAPERS, Claim, Setting, architectures, claims_of, islands, logical
from godwit.reproduce.figures import CAPTION_WIDTH, TITLE_WIDTH, lines
from godwit.simulator import replication_experiment


@pytest.fixture
def setting(tmp_path: Path) -> Setting:
    return Setting(folder=tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("paper", sorted(PAPERS))
def test_every_claim_of_a_paper_gives_one_row_in_the_order_of_their_keys(paper: str, setting: Setting) -> None:
    found = list(claims_of(paper, setting))
    assert tuple(claim.key for claim in found) == PAPERS[paper][1]
    assert all(claim.ours and claim.paper and claim.where for claim in found)


@pytest.mark.slow
@pytest.mark.parametrize("paper", ["mobile", "rebeca"])
def test_every_claim_of_these_papers_holds(paper: str, setting: Setting) -> None:
    assert [claim.key for claim in claims_of(paper, setting) if not claim.holds] == []


@pytest.mark.parametrize(
    "decide", [architectures.quenching, architectures.broadcast_and_multicast, architectures.purging]
)
def test_claims_on_architectures_hold(decide: Any, setting: Setting) -> None:
    claim: Claim = decide(setting)
    assert claim.holds, claim.ours


def test_a_source_that_drops_what_somebody_wants_is_seen(monkeypatch: pytest.MonkeyPatch, setting: Setting) -> None:
    monkeypatch.setattr(Outbox, "quenches", lambda self, event: event.sequence % 7 == 0)
    assert not architectures.quenching(setting).holds


def test_the_tables_of_ploc_are_the_papers_and_a_rule_with_another_step_is_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert logical.ploc_tables().holds
    monkeypatch.setattr(logical, "steps", lambda elapsed_s, dwell_s, rule: locations.steps(elapsed_s, dwell_s))
    assert not logical.ploc_tables().holds


def test_table_1_is_the_papers_and_a_checker_that_sees_nothing_is_seen(
    monkeypatch: pytest.MonkeyPatch, setting: Setting
) -> None:
    monkeypatch.setitem(islands.RUNS, False, 4)
    assert islands.replication(setting).holds
    monkeypatch.setitem(replication_experiment.CHECKS, "ordered", lambda history: True)
    assert not islands.replication(setting).holds


def test_islands_elect_and_merge_and_two_leaders_at_the_end_are_seen(
    monkeypatch: pytest.MonkeyPatch, setting: Setting
) -> None:
    monkeypatch.setitem(islands.AD_HOC_RUNS, False, 1)
    assert islands.ad_hoc(setting).holds
    monkeypatch.setattr(islands, "_leaders", lambda folder: 2)
    assert not islands.ad_hoc(setting).holds


def test_a_paper_that_is_not_there_is_named_with_those_that_are() -> None:
    with pytest.raises(GodwitError, match=r"no paper 'nosuch'.*mobile, pubmob, rebeca"):
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
