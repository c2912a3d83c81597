"""Messages on a terminal: who has read them, and what is attached."""

from typing import Any

import pytest
from click.testing import CliRunner

from godwit.cli.team import team_messages

ROW = {
    "id": "3f2a",
    "time": 0.0,
    "author": "ann",
    "text": "look",
    "reply_to": "",
    "receipts": [],
    "attachments": ["9c1d", "77aa"],
    "attachment_names": ["plan\x1b[2J.txt", None],
}


@pytest.mark.parametrize("words", [["list"], ["read", "3f2a"]])
def test_attachments_are_shown_with_name_and_identifier(monkeypatch: pytest.MonkeyPatch, words: list[str]) -> None:
    def answers(*_: Any, **__: Any) -> list[dict[str, Any]]:
        return [ROW]

    monkeypatch.setattr(team_messages, "is_terminal", lambda: True)
    monkeypatch.setattr(team_messages, "answers_of", answers)
    monkeypatch.setattr(team_messages, "answer_of", lambda *_, **__: ROW)
    shown = CliRunner().invoke(team_messages.app, words).output
    assert "txt (9c1d)" in shown
    assert "\x1b[2J" not in shown
    assert "attached: 77aa (deleted or moved)" in shown
