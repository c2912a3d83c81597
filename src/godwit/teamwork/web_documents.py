"""Operations of the HTTP API: documents, their versions, and their contents as streams.

*Rules.*
1. A content is never held in memory: what comes is written to a file as it comes, what goes out is read from one.
2. A content that goes out is data to a browser, whatever it says of itself: it is saved, never shown as a page of ours.
3. What is shown to others than the user of the peer is in the audit log before (`peer_view.py`).
"""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
from starlette.responses import FileResponse

from godwit.errors import Refused
from godwit.teamwork.documents import Document, Version
from godwit.teamwork.machine.governance import Role
from godwit.teamwork.names import NotThere, not_there
from godwit.teamwork.record_history import HistoryEntry
from godwit.teamwork.searching import SearchResult
from godwit.teamwork.shown_documents import shown_documents
from godwit.teamwork.web_calls import FILE, ROWS, Call, First, Limit, Operation, Page, page_of

__all__ = ["ONE", "OPERATIONS"]

SANDBOX = "default-src 'none'; sandbox"
SAFE_TYPE = "application/octet-stream"


class DocumentQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which documents are asked for: those with this text in their name or title."""

    text: str = ""
    first: First = 0
    limit: Limit = ROWS


class NewName(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The name of a file that is uploaded."""

    name: str


class WantedVersion(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which version is wanted; 0: the current one."""

    version: int = 0


class FieldsChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Fields of the profile of a document; null removes one."""

    fields: dict[str, Any]


class Destination(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The scope to which a document is moved."""

    scope: str


def documents(call: Call) -> Page[Document]:
    """The documents of a scope, by name."""
    text = call.query.text.casefold()
    found = call.team.documents.all(call.scope)
    if text:
        found = [each for each in found if text in f"{each.name} {each.fields.get('title', '')}".casefold()]
    return page_of(found, call.query)


async def show_document(call: Call) -> Document:
    """One document, also of a community of others that shows it to the user."""
    try:
        return document(call)
    except NotThere:
        return call.team.documents.of_found(await _shown(call))


def document(call: Call) -> Document:
    """One document of a scope of the user."""
    return call.team.documents.get(call.scope, call.part("id"))


async def _shown(call: Call) -> SearchResult:
    """A document that is shown to the user, and not kept here."""
    id = call.part("id")
    if call.team.access.role(call.user, call.scope) is Role.NONE:  # members have all of a scope here
        for found in await shown_documents(call.team, id, call.scope):
            if found.id == id:
                return found
    raise not_there("document", id, [])


def versions(call: Call) -> list[Version]:
    """The versions of a document, the oldest first."""
    return call.team.documents.versions(call.scope, call.part("id"))


def document_history(call: Call) -> list[HistoryEntry]:
    """All changes of a document."""
    return call.team.documents.history(call.scope, call.part("id"))


async def add_document(call: Call) -> Document:
    """Store the body of the request as a new document."""
    scope = call.scope
    _check_may_write(call, scope)
    async with call.web.uploads.received(call.request) as file:
        stored = await asyncio.to_thread(call.team.documents.store, file, call.query.name)
    return call.team.documents.add(scope, stored, call.query.name)


async def change_document(call: Call) -> Document:
    """Store the body of the request as a new version."""
    scope, id = call.scope, call.part("id")
    name = call.team.documents.get(scope, id).name
    _check_may_write(call, scope)
    async with call.web.uploads.received(call.request) as file:
        stored = await asyncio.to_thread(call.team.documents.store, file, name)
    return call.team.documents.change(scope, id, stored)


async def content(call: Call) -> FileResponse:
    """The content of a version; one that is not here is fetched from other peers first. (rule 2)"""
    found: Document
    path: Path
    try:
        found = document(call)
        path = await call.team.documents.fetch(call.scope, found.id, call.query.version or None)
    except NotThere:
        if call.query.version:
            raise
        shown = await _shown(call)
        found, path = call.team.documents.of_found(shown), await call.team.documents.fetch_found(shown)
    headers = {"content-security-policy": SANDBOX, "x-content-type-options": "nosniff", "cache-control": "no-store"}
    return FileResponse(
        path, media_type=SAFE_TYPE, filename=found.name, headers=headers, content_disposition_type="attachment"
    )


def _check_may_write(call: Call, scope: str) -> None:
    """Refuse an upload before it comes, if its document would be refused."""
    team = call.team
    owner, role = team.peer.identity.user, team.access.role(call.user, scope)
    if role is Role.NONE:
        raise not_there("scope", scope, [])
    if not call.is_own_peer:
        raise Refused(
            f"you cannot change documents here: this peer has no device of yours, and {owner}'s signs for {owner} alone"
        )
    if role < Role.EDITOR:
        raise Refused(f"you cannot change documents here: your role is {role.name.lower()}")


def set_fields(call: Call) -> Document:
    """Change the profile of a document."""
    return call.team.documents.set_fields(call.scope, call.part("id"), call.takes.fields)


def lock_document(call: Call) -> Document:
    """Let nobody else change it."""
    call.team.documents.lock(call.scope, call.part("id"))
    return document(call)


def unlock_document(call: Call) -> Document:
    """Let others change it again."""
    call.team.documents.unlock(call.scope, call.part("id"))
    return document(call)


def move_document(call: Call) -> Document:
    """Share it with the members of another scope instead."""
    return call.team.documents.move(call.scope, call.part("id"), call.takes.scope)


def delete_document(call: Call) -> None:
    """Take a document away from all members."""
    call.team.documents.delete(call.scope, call.part("id"))


OF_SCOPE = "/api/scopes/{kind}/{scope}/documents"
ONE = f"{OF_SCOPE}/{{id}}"
OPERATIONS = (
    Operation("GET", OF_SCOPE, documents, "List documents.", gives=Page[Document], query=DocumentQuery),
    Operation("POST", OF_SCOPE, add_document, "Upload a document.", bytes, Document, NewName, status=201),
    Operation("GET", ONE, show_document, "Show a document.", gives=Document),
    Operation("PATCH", ONE, set_fields, "Change the profile of a document.", FieldsChange, Document),
    Operation("DELETE", ONE, delete_document, "Delete a document.", status=204),
    Operation("GET", f"{ONE}/content", content, "Download a version.", query=WantedVersion, media=FILE),
    Operation("PUT", f"{ONE}/content", change_document, "Upload a new version.", bytes, Document),
    Operation("GET", f"{ONE}/versions", versions, "List versions.", gives=list[Version]),
    Operation("GET", f"{ONE}/history", document_history, "List changes.", gives=list[HistoryEntry]),
    Operation("POST", f"{ONE}/lock", lock_document, "Lock a document.", gives=Document),
    Operation("POST", f"{ONE}/unlock", unlock_document, "Unlock a document.", gives=Document),
    Operation("POST", f"{ONE}/move", move_document, "Move a document to another scope.", Destination, Document),
)
