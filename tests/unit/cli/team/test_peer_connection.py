"""Commands to a folder that another process has: one that starts to serve it, and one that does not."""

from pathlib import Path
from typing import Any

import pytest

from godwit.cli.team import peer_connection
from godwit.cli.team.peer_connection import NotServed, answers_of, when_free
from godwit.errors import RepositoryInUse
from godwit.teamwork import peer_opening


class Serving:
    """A peer that answers."""

    def __enter__(self) -> "Serving":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def lines(self, command: str, arguments: dict[str, Any]) -> list[dict[str, Any]]:
        return [{"taken": True}, {"answer": command}, {"done": True}]


def has_the_folder(*_: Any) -> None:
    raise RepositoryInUse("ann is the repository of a peer that runs already (process 7)")


def test_a_command_waits_for_a_peer_that_is_starting(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    attempts: list[float] = []

    def connected(folder: Path) -> Serving:
        if len(attempts) < 3:
            raise NotServed
        return Serving()

    monkeypatch.setattr(peer_opening, "run_here", has_the_folder)
    monkeypatch.setattr(peer_connection, "_connected", connected)
    monkeypatch.setattr(peer_connection, "sleep", attempts.append)
    assert answers_of(str(tmp_path), "status") == ["status"]
    assert len(attempts) == 3


def test_a_folder_that_another_process_keeps_is_reported_with_its_process(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    passed: list[float] = []
    monkeypatch.setattr(peer_opening, "run_here", has_the_folder)
    monkeypatch.setattr(peer_connection, "sleep", passed.append)
    monkeypatch.setattr(peer_connection, "monotonic", lambda: sum(passed))
    with pytest.raises(RepositoryInUse, match="process 7"):
        answers_of(str(tmp_path), "status")
    assert 10 < sum(passed) < 60


def test_a_folder_that_is_served_already_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    passed: list[float] = []
    monkeypatch.setattr(peer_connection, "sleep", passed.append)
    with pytest.raises(RepositoryInUse, match="process 7"):
        when_free(has_the_folder, lambda: True)
    assert not passed
