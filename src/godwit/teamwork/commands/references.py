"""References in commands: a community, people, a document, a meeting or a message, by name or identifier.

An identifier is always understood; so is its beginning, and a name, where one thing alone has it. A word that could
mean several things is refused with a list of them.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from godwit.errors import Refused
from godwit.teamwork.documents import Document
from godwit.teamwork.meetings import Meeting
from godwit.teamwork.messages import Message
from godwit.teamwork.names import NotThere, not_there
from godwit.teamwork.searching import SearchResult
from godwit.teamwork.shown_documents import shown_documents
from godwit.teamwork.team import Team

__all__ = [
    "community_of",
    "conversation_of",
    "document_in",
    "document_of",
    "documents_of",
    "meeting_of",
    "message_of",
    "scopes_of",
    "shown_document_of",
]

TEAM = "team"
START_CHARS_MIN = 4
Thing = TypeVar("Thing")


def scopes_of(team: Team) -> list[str]:
    """The team and the communities of the user."""
    return [team.scope, *(community.id for community in team.communities.mine())]


def community_of(team: Team, word: str) -> str:
    """A community, or the whole team by the word `team`: its scope."""
    if word == TEAM:
        return team.scope
    known = {community.id: community.name for community in team.communities.mine()}
    for listing in team.communities.listed():
        known.setdefault(str(listing.get("id", "")), str(listing.get("name", "")))
    return _one("community", word, [(id, name, id) for id, name in known.items()])


def conversation_of(team: Team, words: Sequence[str]) -> str:
    """A community, or the conversation with one or more users: its scope."""
    users = {user.name for user in team.people.all()}
    if all(word in users for word in words):
        return team.messages.conversation(words)
    if len(words) == 1:
        try:
            return community_of(team, words[0])
        except NotThere as error:
            raise NotThere(f"{words[0]!r} is neither a user ({_some(users)}) nor a community: {error}") from None
    unknown = next(word for word in words if word not in users)
    raise not_there("user", unknown, users)


def documents_of(team: Team) -> list[Document]:
    """All documents that the user may read."""
    return [document for scope in scopes_of(team) for document in team.documents.all(scope)]


def document_of(team: Team, word: str) -> Document:
    """A document."""
    return _one("document", word, [(each.id, each.name, each) for each in documents_of(team)])


def document_in(team: Team, scope: str, word: str) -> Document:
    """A document of a scope, to be attached to something there."""
    known = team.documents.all(scope)
    try:
        return _one("document", word, [(each.id, each.name, each) for each in known])
    except NotThere:
        found = document_of(team, word)
    if scope.startswith("conversation/"):
        raise Refused(
            f"{found.name} is a document of {_scope_name(team, found.scope)} and cannot be attached to a message to "
            f"users: send the message to the community, or run: godwit team document share {found.id} --user NAME"
        )
    where = _scope_name(team, scope)
    raise Refused(
        f"{found.name} is a document of {_scope_name(team, found.scope)}, not of {where}: move or add it there first"
    )


def _scope_name(team: Team, scope: str) -> str:
    names = {community.id: community.name for community in team.communities.mine()}
    return "the team" if scope == team.scope else names.get(scope, scope)


async def shown_document_of(team: Team, word: str) -> SearchResult:
    """A document of a community of others that is shown to the user, by its name or whole identifier."""
    known = [(each.id, each.name, each) for each in await shown_documents(team, word)]
    if not known:
        raise not_there("document", word, (each.name for each in documents_of(team)))
    return _one("document", word, known)


def meeting_of(team: Team, word: str) -> Meeting:
    """A meeting."""
    meetings = [meeting for scope in scopes_of(team) for meeting in team.meetings.all(scope)]
    return _one("meeting", word, [(each.id, each.title, each) for each in meetings])


def message_of(team: Team, word: str) -> Message:
    """A message."""
    messages = [message for scope in team.messages.conversations() for message in team.messages.thread(scope)]
    return _one("message", word, [(each.id, "", each) for each in messages])


def _one(what: str, word: str, known: Sequence[tuple[str, str, Thing]]) -> Thing:
    """The thing that a word means, of those with an identifier and a name each."""
    if not word:
        raise Refused(f"name a {what}, by its name or identifier")
    tests: tuple[Callable[[str, str], bool], ...] = (
        lambda id, name: id == word,
        lambda id, name: name == word,
        lambda id, name: len(word) >= START_CHARS_MIN and id.partition("/")[2].rpartition(".")[2].startswith(word),
        lambda id, name: len(word) >= START_CHARS_MIN and id.startswith(word),
        lambda id, name: name.casefold() == word.casefold(),
    )
    for means in tests:
        found = [(id, name, thing) for id, name, thing in known if means(id, name)]
        if len(found) == 1:
            return found[0][2]
        if found:
            raise Refused(
                f"{word!r} can mean {len(found)} objects; name one by its identifier: "
                f"{_some(f'{id} ({name})' if name else id for id, name, _ in found)}"
            )
    raise not_there(what, word, (name or id for id, name, _ in known))


def _some(words: Iterable[str]) -> str:
    return ", ".join(sorted(words)[:20])
