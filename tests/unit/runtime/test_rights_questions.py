"""Who may do what: told without secrets, and tested as for a client."""

from pathlib import Path

import pytest

from godwit.errors import GodwitError
from godwit.runtime.rights_questions import may, users_told
from godwit.runtime.users import Users

FILE = """
[users.ann]
password = "$argon2id$v=19$m=8,t=1,p=1$c2FsdHNhbHQ$aGFzaGhhc2g"
subscribe = ["kind = 'parking'"]
publish = ["kind = 'alarm'"]
admin = true

[users.bob]
certificate = true
subscribe = ["*"]
"""


def users(folder: Path, **settings: str) -> Users:
    (folder / "users.toml").write_text(FILE)
    return Users(folder / "users.toml", **settings)  # type: ignore[arg-type]


def test_users_are_told_without_secrets(tmp_path: Path) -> None:
    ann, bob = users_told(users(tmp_path))
    assert (ann["user"], ann["subscribe"], ann["admin"], ann["password"]) == ("ann", ["kind = 'parking'"], True, True)
    assert (bob["user"], bob["publish"], bob["certificate"], bob["password"]) == ("bob", [], True, False)
    assert "argon2" not in str([ann, bob])
    assert users_told(None) == []


def test_a_right_is_tested_as_for_a_client(tmp_path: Path) -> None:
    known = users(tmp_path)

    def said(user: str, verb: str, what: str) -> tuple[bool, str]:
        told = may(known, {"user": user, "verb": verb, "what": what})
        return told["allowed"], told["reason"]

    assert said("ann", "subscribe", "kind = 'parking' AND cost < 3") == (True, "")
    allowed, reason = said("ann", "subscribe", "kind = 'alarm'")
    assert not allowed
    assert reason == "ann is not allowed to subscribe to that, only what matches: kind = 'parking'"
    assert said("ann", "publish", '{"kind": "alarm"}') == (True, "")
    assert not said("bob", "publish", '{"kind": "alarm"}')[0]


def test_what_would_be_narrowed_is_told(tmp_path: Path) -> None:
    told = may(users(tmp_path, beyond_grants="narrow"), {"user": "ann", "verb": "subscribe", "what": "cost < 3"})
    assert told == {"allowed": True, "reason": "", "narrowed": "cost < 3 AND kind = 'parking'"}


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        ({"user": "eve", "verb": "publish", "what": "{}"}, "no user 'eve'"),
        ({"user": "ann", "verb": "sing", "what": "{}"}, "subscribe or publish"),
        ({"user": "ann", "verb": "publish", "what": "kind"}, "JSON object"),
        ({"user": "ann", "verb": "publish", "what": "[1]"}, "JSON object"),
        ({"user": "ann", "verb": "subscribe", "what": "kind <"}, "column"),
    ],
)
def test_a_wrong_question_is_answered_by_what_is_allowed(tmp_path: Path, asked: dict[str, str], reason: str) -> None:
    with pytest.raises(GodwitError, match=reason):
        may(users(tmp_path), asked)
