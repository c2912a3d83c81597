"""Commands about documents: store, fetch, change, lock, move and delete."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from godwit.errors import Refused
from godwit.teamwork.access import Grant
from godwit.teamwork.commands.command_table import Commands
from godwit.teamwork.commands.profile_fields import fields_of
from godwit.teamwork.commands.references import community_of, document_of, documents_of, shown_document_of
from godwit.teamwork.documents import Document
from godwit.teamwork.names import NotThere
from godwit.teamwork.searching import SearchResult
from godwit.teamwork.team import Team

__all__ = ["COMMANDS"]

PROGRESS_S = 0.1


async def add_document(
    team: Team, path: str, community: str, name: str, fields: Sequence[str]
) -> AsyncIterator[dict[str, Any]]:
    """Store a file of this machine as a document of a community."""
    scope, given = community_of(team, community), fields_of("artefact", fields, team.schema)
    stored = await asyncio.to_thread(team.documents.store, _file(path), name)
    yield _shown(team.documents.add(scope, stored, name, given))


async def change_document(team: Team, document: str, path: str) -> AsyncIterator[dict[str, Any]]:
    """Store a file of this machine as a new version of a document."""
    found = document_of(team, document)
    stored = await asyncio.to_thread(team.documents.store, _file(path), found.name)
    yield _shown(team.documents.change(found.scope, found.id, stored))


def describe_document(team: Team, document: str, fields: Sequence[str]) -> dict[str, Any]:
    """Change the profile of a document."""
    found = document_of(team, document)
    return _shown(team.documents.set_fields(found.scope, found.id, fields_of("artefact", fields, team.schema)))


async def get_document(team: Team, document: str, version: int | None) -> AsyncIterator[dict[str, Any]]:
    """Have a version of a document here: bytes that have come, and then the file, which nobody may write to.

    A document of a community of others that is shown to the user is searched for at all peers.
    """
    shown: SearchResult | None = None
    try:
        found = document_of(team, document)
    except NotThere:
        shown = await shown_document_of(team, document)
        found = team.documents.of_found(shown)
        if version not in (None, found.version):
            raise Refused(f"{found.name} is shown to you in its current version alone: leave out the version") from None
    came = asyncio.Queue[tuple[int, int]]()

    def progress(here: int, total: int) -> None:
        came.put_nowait((here, total))

    getting = (
        team.documents.fetch(found.scope, found.id, version, progress)
        if shown is None
        else team.documents.fetch_found(shown, progress)
    )
    fetching = asyncio.ensure_future(getting)
    try:
        while not fetching.done():
            await asyncio.wait([fetching], timeout=PROGRESS_S)
            told = None
            while not came.empty():
                told = came.get_nowait()
            if told is not None:
                yield {"fetched": told[0], "of": told[1]}
        path = fetching.result()
        if version in (None, found.version):
            found = replace(found, is_here=True)
        yield {**_shown(found), "path": str(path.absolute())}
    finally:
        fetching.cancel()


def documents(team: Team, community: str) -> list[dict[str, Any]]:
    """Documents of a community, or of all."""
    found = team.documents.all(community_of(team, community)) if community else documents_of(team)
    return [_shown(document) for document in found]


def document(team: Team, document: str) -> dict[str, Any]:
    """One document, with its versions."""
    found = document_of(team, document)
    return {**_shown(found), "versions": msgspec.to_builtins(team.documents.versions(found.scope, found.id))}


def history(team: Team, document: str) -> list[dict[str, Any]]:
    """All changes of a document."""
    found = document_of(team, document)
    return list(msgspec.to_builtins(team.documents.history(found.scope, found.id)))


def lock_document(team: Team, document: str) -> dict[str, Any]:
    """Let nobody else change a document."""
    found = document_of(team, document)
    team.documents.lock(found.scope, found.id)
    return _shown(team.documents.get(found.scope, found.id))


def unlock_document(team: Team, document: str) -> dict[str, Any]:
    """Let others change it again."""
    found = document_of(team, document)
    team.documents.unlock(found.scope, found.id)
    return _shown(team.documents.get(found.scope, found.id))


def move_document(team: Team, document: str, community: str) -> dict[str, Any]:
    """Share a document with another community, and no longer with this one."""
    found = document_of(team, document)
    return _shown(team.documents.move(found.scope, found.id, community_of(team, community)))


def share_document(team: Team, document: str, users: Sequence[str], communities: Sequence[str]) -> dict[str, Any]:
    """Show a document to others than the members of its community: to these, and no others."""
    found = document_of(team, document)
    for user in users:
        team.people.get(user)
    grants = [
        *(Grant(user=user) for user in users),
        *(Grant(community=community_of(team, each)) for each in communities),
    ]
    team.rights.show(found.scope, found.id, grants)
    return _shown(team.documents.get(found.scope, found.id))


def delete_document(team: Team, document: str) -> dict[str, Any]:
    """Take a document away from all."""
    found = document_of(team, document)
    team.documents.delete(found.scope, found.id)
    return {"id": found.id, "name": found.name, "scope": found.scope, "deleted": True}


def _file(path: str) -> Path:
    found = Path(path)
    if not found.is_absolute() or not found.is_file():
        raise Refused(f"there is no file {path}")
    return found


def _shown(document: Document) -> dict[str, Any]:
    return dict(msgspec.to_builtins(document))


COMMANDS: Commands = {
    "add document": add_document,
    "change document": change_document,
    "describe document": describe_document,
    "get document": get_document,
    "documents": documents,
    "document": document,
    "history": history,
    "lock document": lock_document,
    "unlock document": unlock_document,
    "move document": move_document,
    "share document": share_document,
    "delete document": delete_document,
}
