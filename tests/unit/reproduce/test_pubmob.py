"""Verdicts on `pubmob` that figures of runs are judged by."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from godwit.reproduce import pubmob
from godwit.reproduce.claims import Setting
from godwit.reproduce.pubmob_bounds import MODES
from godwit.reproduce.pubmob_sizes import FULL


def costs(messages_a_move: float, *, is_line: bool) -> Any:
    """By mode and number of publishers, what runs came to; only PROXY's cost may be no line."""

    def seen(mode: str, publishers: int) -> SimpleNamespace:
        total = publishers * (50 if mode == "proxy" and not is_line and publishers == 50 else 10)
        return SimpleNamespace(total=total, each=messages_a_move, entries={"b": 1.0})

    return {mode: {publishers: seen(mode, publishers) for publishers in FULL.publishers} for mode in MODES}


@pytest.mark.parametrize(
    ("messages_a_move", "is_line", "grade"),
    [(0.4, False, "not decided"), (2.0, False, "does not hold"), (0.4, True, "holds"), (2.0, True, "holds")],
)
def test_p1_is_not_decided_where_proxy_costs_next_to_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, messages_a_move: float, is_line: bool, grade: str
) -> None:
    monkeypatch.setattr(pubmob, "lines", lambda *points, **words: None)
    claim = pubmob._linear(Setting(folder=tmp_path, full=True), FULL, costs(messages_a_move, is_line=is_line))
    assert claim.grade == grade, claim.ours
