"""Documents that a team shares: stored, changed, locked, moved and deleted, with all their versions. [motion §2]

*Theory.* A document is a record `artefact/ID` of the scope of its readers. Its fields are its profile: what the file
says of itself (`extraction.py`), and what users add. The bytes are a content of `content_files.py`, at the peers that
have stored or fetched it. A change that sets `content` is a *version*; it names the hash of the content and the root of
its manifest, so a peer that fetches it can check each part as it comes.

*Rules.*
1. A content is on the disk before the change that names it is made.
2. Of two versions made without knowledge of each other, the later in the order of the scope is the current one. The
   other stays among the versions, and is listed as a conflict until somebody changes the document again.
3. A lock keeps everybody but its holder, and owners, from changing a document. It is a change like any other: one that
   was made elsewhere before the lock was known there still counts if it comes earlier in the order.
4. What a user has given stays when a new version of the file says something else.
5. A deleted document stays deleted, even if it is changed meanwhile. Its history stays; its contents are removed by
   `collect`, and so are versions that are older than the last `versions_kept`.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Protocol, TypeGuard

import msgspec

from godwit.errors import NotHere, Refused
from godwit.teamwork.content_files import ContentFiles
from godwit.teamwork.extraction import Extracted, extracted
from godwit.teamwork.machine.changes import Change, ChangeId
from godwit.teamwork.machine.peer_effects import ChangeRecord
from godwit.teamwork.machine.records import Record
from godwit.teamwork.manifests import Manifest
from godwit.teamwork.names import new_id, not_there
from godwit.teamwork.profile_schema import STANDARD, Schema
from godwit.teamwork.profiles import checked_fields
from godwit.teamwork.record_history import HistoryEntry, history_of
from godwit.teamwork.team_peer import ShowingPeer, TeamRecords

__all__ = [
    "Document",
    "Documents",
    "Fetch",
    "FoundDocument",
    "Stored",
    "Texts",
    "Version",
    "check_documents",
    "collect",
]

NAME_CHARS_MAX = 255
OF_THE_FILE = ("title", "author", "keyword", "subject", "language", "description", "created")
"""Fields that a file says of itself, and a user may overrule. (rule 4)"""
OF_A_VERSION = ("content", "root", "size", "type", "changed", "version")
KIND = "artefact"
VERSIONS_KEPT = 20

Progress = Callable[[int, int], None]
"""Told the bytes that are here, and how many there will be."""


class Version(msgspec.Struct, frozen=True):
    """One version of a document."""

    number: int
    """From 1, in the order of the scope. A version that arrives late may take a place between others."""
    user: str
    time: float
    """When it was made, by the clock of that device."""
    size: int
    content: str
    """SHA-256 of its bytes."""
    root: str
    """Hash of its manifest."""
    is_here: bool
    is_conflict: bool = False
    """Whether it lost against a version that was made without knowledge of it. (rule 2)"""
    moved_by: str = ""
    """Who has moved it here, and says that `user` made it; empty if it was made here."""


class Document(msgspec.Struct, frozen=True):
    """A document, as it is now."""

    id: str
    scope: str
    name: str
    type: str
    size: int
    fields: dict[str, Any]
    """Its profile."""
    content: str
    version: int
    """The number of the current version."""
    locked_by: str
    is_here: bool
    """Whether the content of the current version is at this peer."""
    conflicts: tuple[int, ...] = ()
    """Numbers of versions that lost and nobody has looked at since."""
    problem: str = ""
    """Why title, author or text could not be read from the file; only from `add` and `change`."""


class Stored(msgspec.Struct, frozen=True):
    """A file that is on the disk of this peer, and not in a document yet: made by `Documents.store`."""

    manifest: Manifest
    said: Extracted


class Fetch(Protocol):
    """Brings a content here from the peers that have it."""

    def __call__(
        self, scope: str, record: str, content: bytes, root: bytes, progress: Progress | None
    ) -> Awaitable[None]:
        """The content is in the files of this peer when this returns; `NotHere` if nobody has it."""
        ...


class FoundDocument(Protocol):
    """A result of a search."""

    @property
    def scope(self) -> str: ...

    @property
    def record(self) -> str: ...

    @property
    def fields(self) -> Mapping[str, Any]: ...


class Texts(Protocol):
    """The texts of contents, for full-text search."""

    def put(self, content: str, text: str) -> None:
        """Keep the text of a content."""
        ...


class Documents:
    """The documents of a peer, as one user sees them."""

    def __init__(
        self,
        peer: ShowingPeer,
        contents: ContentFiles,
        texts: Texts,
        fetch: Fetch,
        schema: Schema = STANDARD,
    ) -> None:
        self._peer, self._contents, self._texts, self._fetch, self._schema = peer, contents, texts, fetch, schema

    # ------------------------------------------------------------ seeing

    def all(self, scope: str) -> list[Document]:
        """All documents of a community or of the team, by name."""
        records = self._peer.repository.records(scope, KIND)
        found = [self._document(scope, record) for record in records if _is_there(record)]
        return sorted(found, key=lambda document: (document.name, document.id))

    def get(self, scope: str, id: str) -> Document:
        """One document."""
        return self._document(scope, self._record(scope, id))

    def versions(self, scope: str, id: str) -> list[Version]:
        """All versions, the oldest first."""
        return self._versions(scope, self._record(scope, id))

    def history(self, scope: str, id: str) -> list[HistoryEntry]:
        """All changes of a document, also of one that was deleted, in the order that decides."""
        record = self._peer.repository.record(scope, f"{KIND}/{id}")
        if record is None:
            raise not_there("document", id, [])
        return history_of(self._peer.repository, scope, [record.name])

    def open(self, scope: str, id: str, version: int | None = None) -> Path:
        """The file of a version, the current one unless told. It may be read; nobody may write to it."""
        wanted = self._version(scope, id, version)
        if not wanted.is_here:
            raise NotHere(f"version {wanted.number} of document {id} is not at this peer: fetch it first")
        self._peer.show("file", scope, f"{KIND}/{id}", wanted.content)
        return self._contents.path(bytes.fromhex(wanted.content))

    async def fetch(self, scope: str, id: str, version: int | None = None, progress: Progress | None = None) -> Path:
        """The same, brought here first from the peers that have it. `progress` is told bytes here and in all."""
        wanted = self._version(scope, id, version)
        if not wanted.is_here:
            content, root = bytes.fromhex(wanted.content), bytes.fromhex(wanted.root)
            await self._fetch(scope, f"{KIND}/{id}", content, root, progress)
        return self.open(scope, id, version)

    def of_found(self, found: FoundDocument) -> Document:
        """A document that a search has found, as its profile describes it."""
        fields, id = found.fields, found.record.partition("/")[2]
        record = self._peer.repository.record(found.scope, found.record)
        if record is not None and _is_there(record):
            return self._document(found.scope, record)
        size, version, content = fields.get("size"), fields.get("version"), fields.get("content")
        if not _is_hash(content):
            raise not_there("document", id, [])
        return Document(
            *(id, found.scope, str(fields.get("name", "")), str(fields.get("type", ""))),
            size=size if type(size) is int else 0,
            fields=dict(fields),
            content=content,
            version=version if type(version) is int else 1,
            locked_by="",
            is_here=bytes.fromhex(content) in self._contents,
        )

    async def fetch_found(self, found: FoundDocument, progress: Progress | None = None) -> Path:
        """The current version of a document that a search has found, also of one that is shown to this user alone.

        The file of a document that is not kept here is removed by `Team.collect`: copy it.
        """
        id = found.record.partition("/")[2]
        if self._peer.repository.record(found.scope, found.record) is not None:
            return await self.fetch(found.scope, id, None, progress)
        self._peer.check_writer()
        content, root = found.fields.get("content"), found.fields.get("root")
        if not _is_hash(content) or not _is_hash(root):
            raise not_there("document", id, [])
        name = bytes.fromhex(content)
        if name not in self._contents:
            await self._fetch(found.scope, found.record, name, bytes.fromhex(root), progress)
        return self._contents.path(name)

    # ------------------------------------------------------------ changing

    def check_may_add(self, scope: str) -> None:
        """Refuse now what `add` would refuse, before a large file is read."""
        self._check_may_change(scope, new_id())

    def store(self, source: Path | BinaryIO, name: str) -> Stored:
        """Put a file on the disk of this peer and read what it says of itself. Thread-safe, for large files:

        stored = await asyncio.to_thread(team.documents.store, source, name)
        team.documents.add(scope, stored, name)
        """
        _check_file_name(name)
        manifest = self._contents.store(source)
        return Stored(manifest, extracted(self._contents.path(manifest.name), name))

    def add(
        self, scope: str, source: Path | BinaryIO | Stored, name: str = "", fields: Mapping[str, Any] | None = None
    ) -> Document:
        """Share a file with the members of a scope. `name`: of the file; `fields`: what to add to its profile."""
        name = name or (source.name if isinstance(source, Path) else "")
        _check_file_name(name)
        given = checked_fields(KIND, fields or {}, self._schema)
        _check_given(given)
        id = new_id()
        self._check_may_change(scope, id)
        stored = self._stored(source, name)
        said = {**stored.said.fields, "name": name, **_set_only(given)}
        self._change(scope, id, {**said, **self._version_fields(stored, 1), "given": sorted(given)})
        return msgspec.structs.replace(self.get(scope, id), problem=stored.said.problem)

    def change(self, scope: str, id: str, source: Path | BinaryIO | Stored) -> Document:
        """Make a new version of a document."""
        record = self._record(scope, id)
        self._check_may_change(scope, id)
        stored = self._stored(source, str(record.fields.get("name", id)))
        given = _given(record)
        said = {name: stored.said.fields.get(name) for name in OF_THE_FILE if name not in given}
        said = {name: value for name, value in said.items() if value is not None or name in record.fields}
        number = len(self._versions(scope, record)) + 1
        self._change(scope, id, {**said, **self._version_fields(stored, number)})
        return msgspec.structs.replace(self.get(scope, id), problem=stored.said.problem)

    def set_fields(self, scope: str, id: str, fields: Mapping[str, Any]) -> Document:
        """Change the profile of a document; None removes a field."""
        record = self._record(scope, id)
        checked = checked_fields(KIND, fields, self._schema)
        _check_given(checked)
        if checked.get("name") is None and "name" in checked:
            raise Refused("a document must have a name: give another one")
        if "name" in checked:
            _check_file_name(checked["name"])
        before = _given(record)
        removed = {name for name, value in checked.items() if value is None}
        self._change(scope, id, {**checked, "given": sorted((before | checked.keys()) - removed)})
        return self.get(scope, id)

    def lock(self, scope: str, id: str) -> None:
        """Let nobody else change it. (rule 3)"""
        holder = self.get(scope, id).locked_by
        if holder and holder != self._peer.identity.user:
            raise Refused(f"document {id} is locked by {holder}")
        self._change(scope, id, {"locked_by": self._peer.identity.user})

    def unlock(self, scope: str, id: str) -> None:
        """Let others change it again."""
        if self.get(scope, id).locked_by:
            self._change(scope, id, {"locked_by": None})

    def move(self, scope: str, id: str, to_scope: str) -> Document:
        """Share it with the members of another scope, with all versions, and no longer with those of this one.

        A move that was interrupted leaves the document in both; to move it again ends it.
        """
        if scope == to_scope:
            raise Refused(f"document {id} is in {scope} already")
        record = self._record(scope, id)
        self._check_may_change(scope, id)
        fields = {name: value for name, value in record.fields.items() if name not in ("locked_by", "shown_to")}
        for change in _version_changes(self._peer.repository, scope, record):
            of_version = {name: change.fields[name] for name in OF_A_VERSION if name in change.fields}
            origin = {"made_by": change.fields.get("made_by", change.user)}
            origin["made_at"] = change.fields.get("made_at", change.time)
            self._change(to_scope, id, {**fields, **of_version, **origin, "deleted": None})
        self.delete(scope, id)
        return self.get(to_scope, id)

    def delete(self, scope: str, id: str) -> None:
        """Take it away from all members. Its history stays. (rule 5)"""
        self._record(scope, id)
        gone: dict[str, Any] = dict.fromkeys((*OF_A_VERSION, "locked_by", "shown_to"))
        self._change(scope, id, {**gone, "deleted": True})

    # ------------------------------------------------------------ in detail

    def _stored(self, source: Path | BinaryIO | Stored, name: str) -> Stored:
        """A file that is on the disk, with its text where the index looks for it. (rule 1)"""
        stored = source if isinstance(source, Stored) else self.store(source, name)
        if stored.said.text:
            self._texts.put(stored.manifest.name.hex(), stored.said.text)
        return stored

    def _version_fields(self, stored: Stored, number: int) -> dict[str, Any]:
        manifest = stored.manifest
        fields = {name: value for name, value in stored.said.fields.items() if name in ("type", "changed")}
        return {
            **fields,
            "size": manifest.size,
            "content": manifest.name.hex(),
            "root": manifest.root.hex(),
            "version": number,
        }

    def _change(self, scope: str, id: str, fields: dict[str, Any]) -> None:
        self._peer.do(ChangeRecord(scope, f"{KIND}/{id}", fields))

    def _check_may_change(self, scope: str, id: str) -> None:
        """Refuse a change without a right before anything is stored."""
        log, identity = self._peer.machine.log(scope), self._peer.identity
        change = log.make(identity.device, identity.user, f"{KIND}/{id}", {}, self._peer.time())
        if reason := log.refusal(change):
            raise Refused(reason)

    def _record(self, scope: str, id: str) -> Record:
        record = self._peer.repository.record(scope, f"{KIND}/{id}")
        if record is None or not _is_there(record):
            raise not_there("document", id, [])
        return record

    def _versions(self, scope: str, record: Record) -> list[Version]:
        lost = _lost(record)
        found = []
        for number, change in enumerate(_version_changes(self._peer.repository, scope, record), 1):
            fields = change.fields
            size, root, made_by = fields.get("size"), fields.get("root"), fields.get("made_by")
            found.append(
                Version(
                    number,
                    change.user if made_by is None else str(made_by),
                    _number(fields.get("made_at"), change.time),
                    size if type(size) is int else 0,
                    str(fields["content"]),
                    str(root) if _is_hash(root) else "",
                    bytes.fromhex(fields["content"]) in self._contents,
                    change.id in lost,
                    "" if made_by is None else change.user,
                )
            )
        return found

    def _version(self, scope: str, id: str, number: int | None) -> Version:
        record = self._record(scope, id)
        versions = self._versions(scope, record)
        if number is None:
            current = [version for version in versions if version.content == record.fields["content"]]
            if current:
                return current[-1]
        for version in versions:
            if version.number == number:
                return version
        raise not_there("version", str(number), [str(each.number) for each in versions])

    def _document(self, scope: str, record: Record) -> Document:
        fields, elements = record.fields, self._schema[KIND]
        size, version, content = fields.get("size"), fields.get("version"), str(fields["content"])
        versions = self._versions(scope, record) if _lost(record) else []
        current = [each.number for each in versions if each.content == content and not each.is_conflict]
        if current:  # authors who did not know of each other's versions have given them the same number
            version = current[-1]
        return Document(
            record.name.partition("/")[2],
            scope,
            str(fields.get("name", "")),
            str(fields.get("type", "")),
            size if type(size) is int else 0,
            {name: value for name, value in fields.items() if name in elements},
            content,
            version if type(version) is int else 1,
            str(fields.get("locked_by", "")),
            bytes.fromhex(content) in self._contents,
            tuple(each.number for each in versions if each.is_conflict),
        )


def check_documents(records: TeamRecords, scope: str, ids: Sequence[str]) -> None:
    """Refuse identifiers that are not those of documents of a scope: its members could not open them."""
    for id in ids:
        record = records.record(scope, f"{KIND}/{id}")
        if record is None or not _is_there(record):
            raise Refused(f"there is no document {id!r} in {scope}: move or add it there first")


def collect(
    records: TeamRecords, contents: ContentFiles, *, versions_kept: int = VERSIONS_KEPT, stored_before: float
) -> int:
    """Remove contents that no document needs: of deleted ones, and old versions; the bytes that are free now. (rule 5)

    A version that lost a conflict is kept until somebody has changed the document again. What was stored after a time
    of day stays, since its change may not be written yet.
    """
    named: set[bytes] = set()
    for scope in records.scopes():
        for record in filter(_is_there, records.records(scope, KIND)):
            versions, lost = _version_changes(records, scope, record), _lost(record)
            kept = versions[-versions_kept:] + [each for each in versions if each.id in lost]
            named |= {bytes.fromhex(each.fields["content"]) for each in kept}
    return contents.collect(named, stored_before)


def _is_there(record: Record) -> bool:
    return _is_hash(record.fields.get("content")) and not record.fields.get("deleted")


def _ordered(records: TeamRecords, scope: str, record: Record) -> list[Change]:
    return sorted(records.changes_of(scope, record.name), key=lambda change: change.order)


def _version_changes(records: TeamRecords, scope: str, record: Record) -> list[Change]:
    refused = {each.change for each in record.refused}
    return [
        change
        for change in _ordered(records, scope, record)
        if _is_hash(change.fields.get("content")) and change.id not in refused
    ]


def _lost(record: Record) -> set[ChangeId]:
    """Versions that lost a conflict which is still open."""
    return {each.lost for each in record.conflicts if each.field == "content"}


def _is_hash(value: Any) -> TypeGuard[str]:
    if not isinstance(value, str) or len(value) != 64:
        return False
    try:
        return len(bytes.fromhex(value)) == 32
    except ValueError:
        return False


def _number(value: Any, default: float) -> float:
    return float(value) if isinstance(value, int | float) else default


def _given(record: Record) -> set[str]:
    """The fields that users have given. (rule 4)"""
    names = record.fields.get("given")
    return set(map(str, names)) if isinstance(names, list | tuple) else set()


def _set_only(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _check_given(fields: Mapping[str, Any]) -> None:
    if own := sorted(fields.keys() & set(OF_A_VERSION)):
        raise Refused(f"{own[0]!r} comes from the file itself: give other fields of the profile")


def _check_file_name(name: str) -> None:
    """A name that can be a file's on any system: `Refused` if not."""
    if (
        not name
        or len(name) > NAME_CHARS_MAX
        or not name.isprintable()
        or name in (".", "..")
        or set(name) & set("/\\")
    ):
        raise Refused(
            f"{name!r} cannot be the name of a document: 1 to {NAME_CHARS_MAX} printable characters, none of / \\"
        )
