"""What a hand-off as a step of the radio's could save: counted from given waits."""

from pathlib import Path

import pytest

from godwit.reproduce.radio_handoff import draw_radio_handoff, wait_left


def test_a_transfer_saves_no_more_than_the_silence_and_no_more_than_the_wait() -> None:
    assert wait_left([0.3, 0.1], 0.0) == pytest.approx(0.2)
    assert wait_left([0.3, 0.1], 0.2) == pytest.approx(0.05)
    assert wait_left([0.3, 0.1], 0.5) == 0


def test_what_is_left_is_drawn_and_told_for_each_mode(tmp_path: Path) -> None:
    told = draw_radio_handoff(tmp_path, 1, {"relocate": [0.2], "ask": [0.4]}, 13)
    assert "0, 50, 100, 200, 300, 500 ms: relocate 0.20 s, 0.15 s" in told
    assert "ask 0.40 s" in told
    assert (tmp_path / "radio_handoff.png").exists()
