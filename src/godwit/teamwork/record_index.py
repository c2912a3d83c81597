"""Keeps an index of profiles up to date with the records of a peer, and answers searches by the rights of the asking
user.

*Rules.*
1. The index follows by revision: after each change, and from where it was when the peer starts. It may be lost at any
   time; it is made again from the records.
2. A search sees only what the asker may see at that moment (`access.py`). What another user is shown is in the audit
   log before it leaves.
3. Asked by another peer, a peer answers with the records that the asker cannot find itself: those that were made here,
   those of scopes that the asker is no member of, and documents found by words whose text is here.
"""

import json
from collections.abc import Callable, Collection
from functools import partial

from godwit.errors import FilterError, GodwitError
from godwit.teamwork.access import Access
from godwit.teamwork.machine.bus import Found, Wanted
from godwit.teamwork.machine.governance import Role
from godwit.teamwork.machine.peer_effects import Happened, PeerReport
from godwit.teamwork.machine.records import Record
from godwit.teamwork.profile_index import Entry, ProfileIndex, Rights
from godwit.teamwork.record_profiles import RecordProfiles
from godwit.teamwork.repository import Repository
from godwit.teamwork.search_texts import match_expression

__all__ = ["RecordIndex"]

PAGE = 500
SHOWN = "shown "
MAKERS_MAX = 100_000
KIND_OF = {"scope": "community", "listing": "community"}

Show = Callable[[list[tuple[str, str]], str, str], None]
"""Told, before records leave: their scopes and names, to whom, and by which way."""


class RecordIndex:
    """The index of a peer: an `Index` for its machine, and a listener for what happens."""

    def __init__(
        self,
        device: str,
        repository: Repository,
        index: ProfileIndex,
        profiles: RecordProfiles,
        access: Access,
        text_of: Callable[[str], str],
        show: Show,
    ) -> None:
        """`text_of`: the text of a content, as far as it is here."""
        self._device, self._repository, self._index = device, repository, index
        self._profiles, self._access, self._text_of, self._show = profiles, access, text_of, show
        self._makers: dict[tuple[str, str], str] = {}
        self._shown: dict[str, set[str]] = {}
        for name in repository.settings.names(SHOWN):
            scope, record = json.loads(name.removeprefix(SHOWN))
            self._shown.setdefault(scope, set()).add(record)
        self.follow()

    # ------------------------------------------------------------ following

    def __call__(self, happened: PeerReport) -> None:
        """Something has happened on the peer. (rule 1)"""
        if isinstance(happened, Happened):
            self.follow()

    def follow(self) -> None:
        """Take all records that were put since the last time."""
        while page := self._repository.records_since(self._index.revision, PAGE):
            entries = []
            for revision, scope, record in page:
                self._note_shown(scope, record)
                entry = self._entry(scope, record, revision)
                if entry is not None:
                    entries.append(entry)
                else:
                    self._index.remove(scope, record.name)
            self._index.put_many(entries)
            last, scope, record = page[-1]
            if not entries or entries[-1].revision < last:
                self._index.remove(scope, record.name, last)

    def refresh(self, scope: str, name: str) -> None:
        """The text of a document is here now."""
        record = self._repository.record(scope, name)
        entry = self._entry(scope, record, self._index.revision) if record is not None else None
        if entry is not None:
            self._index.put(entry)

    def _entry(self, scope: str, record: Record, revision: int) -> Entry | None:
        profile = self._profiles.of(scope, record)
        if profile is None or not profile.is_searched:
            return None
        content = record.fields.get("content")
        body = self._text_of(content) if profile.kind == "artefact" and isinstance(content, str) else ""
        return Entry(scope, record.name, profile.document, body, revision)

    def _note_shown(self, scope: str, record: Record) -> None:
        """Remember which records have grants: others than members are looked for among these alone."""
        known, is_shown = self._shown.setdefault(scope, set()), bool(record.fields.get("shown_to"))
        if is_shown != (record.name in known):
            self._repository.settings.put(SHOWN + json.dumps([scope, record.name]), True if is_shown else None)
            (known.add if is_shown else known.discard)(record.name)

    # ------------------------------------------------------------ searching

    def find(self, wanted: Wanted, scopes: Collection[str], user: str, *, only_made_here: bool) -> list[Found]:
        """Records that match, as far as a user may see them; the best first. (rules 2 and 3)"""
        try:
            results = self._found(wanted, scopes, user, only_made_here)
        except FilterError:
            raise
        except GodwitError as error:
            raise FilterError(str(error)) from error
        self._show([(each.scope, each.record) for each in results], user, "search")
        return results

    def _found(self, wanted: Wanted, scopes: Collection[str], user: str, only_made_here: bool) -> list[Found]:
        query = self._profiles.query(wanted.language, wanted.query) if wanted.query else None
        if wanted.words:
            match_expression(wanted.words)  # also where the query finds nothing
        self._access.check_query(user, "may_search", query)
        readable = {scope for scope in scopes if self._access.role(user, scope) > Role.NONE}
        shown = {scope for scope, records in self._shown.items() if records} - readable
        is_visible = partial(self._is_visible, frozenset(wanted.kinds), readable, user, only_made_here, wanted.words)
        rights = Rights(sorted(readable | shown), is_visible)
        found = self._index.search(query, rights, text=wanted.words, limit=wanted.limit)
        return [Found(each.scope, each.record, each.document, each.score) for each in found.results]

    def _is_visible(
        self, kinds: Collection[str], readable: Collection[str], user: str, only_made_here: bool, words: str,
        scope: str, name: str,
    ) -> bool:  # fmt: skip
        kind = name.partition("/")[0]
        if KIND_OF.get(kind, kind) not in kinds:
            return False
        if scope not in readable:
            return self._access.is_shown(user, scope, name)
        return not only_made_here or self._maker(scope, name) == self._device or self._has_text(words, scope, name)

    def _maker(self, scope: str, name: str) -> str:
        """The device that made a record."""
        known = self._makers.get((scope, name))
        if known is None:
            changes = self._repository.changes_of(scope, name)
            known = min(changes, key=lambda change: change.order).device if changes else ""
            if len(self._makers) >= MAKERS_MAX:
                self._makers.clear()
            self._makers[scope, name] = known
        return known

    def _has_text(self, words: str, scope: str, name: str) -> bool:
        if not words or not name.startswith("artefact/"):
            return False
        record = self._repository.record(scope, name)
        content = record.fields.get("content") if record is not None else None
        return isinstance(content, str) and bool(self._text_of(content))
