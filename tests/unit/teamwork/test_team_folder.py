"""Founding a team, and joining one by an invitation."""

from pathlib import Path

import pytest

from godwit.errors import Refused, RepositoryError, SecurityError
from godwit.teamwork.device_keys import DeviceKeys, team_scope
from godwit.teamwork.team_folder import invitation_text, join_team, new_team, read_team_folder


def test_a_folder_names_its_team_and_holds_its_keys(tmp_path: Path) -> None:
    made = new_team(tmp_path / "team", "ann", device="laptop", brokers=["127.0.0.1:7077"])
    said, keys = read_team_folder(tmp_path / "team")
    assert said == made
    assert said.team == team_scope("ann", keys)
    assert keys.device.startswith("laptop.")
    assert ((tmp_path / "team" / "device.json").stat().st_mode & 0o777) == 0o600


def test_an_invitation_makes_a_folder_with_the_keys_in_it(tmp_path: Path) -> None:
    keys = DeviceKeys.made("phone")
    text = invitation_text("team/ann.1", "bob", keys, ["b1"])
    broken = "\n".join([text[:40], text[40:]])
    said = join_team(tmp_path, broken)
    assert (said.team, said.user, said.brokers) == ("team/ann.1", "bob", ("b1",))
    assert read_team_folder(tmp_path)[1].public_fields == keys.public_fields


def test_a_folder_may_begin_with_a_tilde_as_when_it_is_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    said = new_team("~/team", "ann")
    assert read_team_folder(tmp_path / "team")[0] == said
    join_team("~/joined", invitation_text(said.team, "bob", DeviceKeys.made("phone"), ()))
    assert read_team_folder(tmp_path / "joined")[0].user == "bob"


def test_a_folder_in_use_is_refused_and_stays_as_it_is(tmp_path: Path) -> None:
    made = new_team(tmp_path, "ann")
    with pytest.raises(RepositoryError, match="belongs to a device of a team already"):
        new_team(tmp_path, "bob")
    with pytest.raises(RepositoryError, match="belongs to a device of a team already"):
        join_team(tmp_path, invitation_text("team/x.1", "bob", DeviceKeys.made("phone"), []))
    assert read_team_folder(tmp_path)[0] == made


def test_an_attempt_that_was_interrupted_can_be_repeated(tmp_path: Path) -> None:
    DeviceKeys.made("old").save(tmp_path / "device.json")
    new_team(tmp_path, "ann", device="new")
    assert read_team_folder(tmp_path)[1].device.startswith("new.")


@pytest.mark.parametrize("text", ["", "hello", "godwit-team-1.", "godwit-team-1.%%%", "godwit-team-1.gaQ"])
def test_what_is_no_invitation_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(SecurityError, match="invitation"):
        join_team(tmp_path / "team", text)
    assert not (tmp_path / "team").exists()


def test_a_part_of_an_invitation_is_refused(tmp_path: Path) -> None:
    text = invitation_text("team/ann.1", "bob", DeviceKeys.made("phone"), [])
    with pytest.raises(SecurityError, match="copy all of it"):
        join_team(tmp_path, text[:-20])


@pytest.mark.parametrize("user", ["", "a/b", "a\nb", "x" * 200])
def test_a_name_that_cannot_be_is_refused(tmp_path: Path, user: str) -> None:
    with pytest.raises(Refused, match="cannot be the name of a user"):
        new_team(tmp_path, user)


def test_a_folder_without_a_team_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(RepositoryError, match="found one with `godwit team init`, or join one with `godwit team join`"):
        read_team_folder(tmp_path)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{}", "does not name a team"),
        ('{"format": "godwit team", "version": 9, "team": "t", "user": "u"}', "version 9; this program reads"),
    ],
)
def test_another_file_is_refused(tmp_path: Path, text: str, why: str) -> None:
    (tmp_path / "team.json").write_text(text)
    with pytest.raises(RepositoryError, match=why):
        read_team_folder(tmp_path)
