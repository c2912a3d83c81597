"""The index follows the records: after each change, a restart, or its loss; and forgets what was deleted."""

from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from godwit.errors import FilterError
from godwit.teamwork import record_index
from godwit.teamwork.access import Access
from godwit.teamwork.machine.bus import Wanted
from godwit.teamwork.machine.changes import Change
from godwit.teamwork.machine.governance import Governance, governance
from godwit.teamwork.machine.records import Record
from godwit.teamwork.profile_index import ProfileIndex
from godwit.teamwork.record_index import RecordIndex
from godwit.teamwork.record_profiles import RecordProfiles
from godwit.teamwork.repository import Repository

TEAM, SCOPE = "team/ann.1", "community/ann smith.2"
MEMBER = {"state": "joined", "role": "editor"}


class Peer:
    """A repository with its index."""

    def __init__(self, folder: Path) -> None:
        self._stack = ExitStack()
        self.repository = self._stack.enter_context(closing(Repository(folder)))
        following = self.repository.identity, self.repository.revision
        self.profiles = self._stack.enter_context(closing(ProfileIndex(folder / "index.sqlite", *following)))
        self.shown: list[Any] = []
        self.texts: dict[str, str] = {}
        self.entries_before = len(self.profiles)
        profiles = RecordProfiles()
        access = Access(TEAM, self.repository, self._governance, profiles.matches)
        self.index = RecordIndex(
            "laptop",
            self.repository,
            self.profiles,
            profiles,
            access,
            lambda name: self.texts.get(name, ""),
            self._show,
        )

    def __enter__(self) -> "Peer":
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _text(self, content: str) -> str:
        return self.texts.get(content, "")

    def _show(self, what: list[tuple[str, str]], to: str, way: str) -> None:
        self.shown.append((what, to, way))

    def _governance(self, scope: str) -> Governance:
        changes = [Change(TEAM, "laptop", 1, 1, "ann", f"member/{user}", MEMBER) for user in ("bob", "cid")]
        return governance(scope, changes if scope == TEAM else [])

    def put(self, name: str, fields: dict[str, Any], scope: str = TEAM, device: str = "laptop") -> None:
        number = self.repository.vector(scope).get(device, 0) + 1
        with self.repository.transaction():
            self.repository.add(Change(scope, device, number, number, "ann", name, fields))
            self.repository.put(scope, Record(name, fields, {}, ()))

    def found(self, user: str = "ann", only_made_here: bool = False, **wanted: Any) -> list[str]:
        asked = Wanted(("artefact", "user"), **({"query": "//name"} | wanted))
        scopes = [TEAM, SCOPE] if user == "ann" else [TEAM]
        results = self.index.find(asked, scopes, user, only_made_here=only_made_here)
        return sorted(each.record for each in results)


def artefact(name: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, "content": "00" * 32, **fields}


def test_the_index_follows_after_each_change_and_from_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_index, "PAGE", 2)
    with Peer(tmp_path) as peer:
        peer.put("user/ann", {"name": "Ann"})
        for number in range(5):
            peer.put(f"receipt/{number}", {"read": 1.0})
        assert peer.found() == []
        peer.index.follow()
        assert peer.found() == ["user/ann"]
        peer.put("artefact/1", artefact("a"))
        peer.put("receipt/9", {"read": 1.0})
    with Peer(tmp_path) as peer:
        assert peer.entries_before == 1
        assert peer.profiles.revision == peer.repository.revision
        assert peer.found() == ["artefact/1", "user/ann"]
        peer.put("artefact/1", artefact("a", deleted=True))
        peer.index.follow()
        assert peer.found() == ["user/ann"]


def test_an_index_that_was_lost_is_made_again(tmp_path: Path) -> None:
    with Peer(tmp_path) as peer:
        peer.put("user/ann", {"name": "Ann"})
    for path in tmp_path.glob("index.sqlite*"):
        path.unlink()
    with Peer(tmp_path) as peer:
        assert peer.found() == ["user/ann"]


def test_what_is_shown_to_others_is_known_after_a_restart(tmp_path: Path) -> None:
    with Peer(tmp_path) as peer:
        peer.put("artefact/1", artefact("a", shown_to=["bob"]), SCOPE)
        peer.put("artefact/2", artefact("b"), SCOPE)
        peer.index.follow()
        assert (peer.found("bob"), peer.found("cid")) == (["artefact/1"], [])
    with Peer(tmp_path) as peer:
        assert (peer.found("bob"), peer.found("cid")) == (["artefact/1"], [])
        assert peer.shown[0] == ([(SCOPE, "artefact/1")], "bob", "search")
        peer.put("artefact/1", artefact("a"), SCOPE)
        peer.index.follow()
        assert peer.found("bob") == []


def test_other_peers_are_told_what_they_cannot_find_themselves(tmp_path: Path) -> None:
    with Peer(tmp_path) as peer:
        peer.put("artefact/1", artefact("made here"))
        peer.put("artefact/2", artefact("made there", content="11" * 32), device="phone")
        peer.put("artefact/3", artefact("shown", shown_to=["bob"]), SCOPE, device="phone")
        peer.index.follow()
        assert peer.found("bob", only_made_here=True) == ["artefact/1", "artefact/3"]
        assert peer.found("bob") == ["artefact/1", "artefact/2", "artefact/3"]
        peer.texts["11" * 32] = "steel"
        peer.index.refresh(TEAM, "artefact/2")
        assert peer.found("bob", only_made_here=True, query="", words="steel") == ["artefact/2"]


def test_a_query_that_cannot_be_read_or_may_not_be_asked_is_an_error(tmp_path: Path) -> None:
    with Peer(tmp_path) as peer:
        bad: list[dict[str, Any]] = [{"query": "//[["}, {"query": "x = my.y", "language": "filter"}, {"words": "!"}]
        for wanted in bad:
            with pytest.raises(FilterError):
                peer.found(**wanted)
        with pytest.raises(FilterError, match="this device has not received the team's data yet"):
            peer.found("eve")
        peer.put("user/ann", {"name": "Ann"})
        with pytest.raises(FilterError, match="eve is not a member of the team"):
            peer.found("eve")
