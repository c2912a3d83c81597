"""Operations of the HTTP API: conversations and messages."""

import msgspec

from godwit.teamwork.messages import Message
from godwit.teamwork.web_calls import Call, Operation, Page, Slice, page_of

__all__ = ["OPERATIONS"]


class Conversation(msgspec.Struct, frozen=True):
    """A community or conversation in which the user may read and write messages."""

    scope: str
    title: str
    people: list[str]
    count: int
    unread: int
    last: Message | None


class ConversationWish(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """With whom a conversation is wanted."""

    users: list[str]


class ConversationFound(msgspec.Struct, frozen=True):
    """The conversation with these users."""

    scope: str


class NewMessage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A message to be sent. `attachments`: identifiers of documents of the same scope."""

    text: str
    reply_to: str = ""
    attachments: list[str] = []


def conversations(call: Call) -> list[Conversation]:
    """Communities and conversations of the user, those with the latest message first."""
    team = call.team
    names = {community.id: community.name for community in team.communities.mine()}
    profiles = {user.name: user.profile for user in team.people.all()}
    scopes = list(dict.fromkeys([*team.messages.conversations(), *names]))
    found = []
    for scope in scopes:
        thread, people = team.messages.thread(scope), sorted(team.peer.machine.governance(scope).members())
        others = [str(profiles.get(name, {}).get("name") or name) for name in people if name != call.user]
        title = names.get(scope) or ("The team" if scope == team.scope else ", ".join(others) or "Your notes")
        unread = sum(not _is_read(message, call.user) for message in thread)
        found.append(Conversation(scope, title, people, len(thread), unread, thread[-1] if thread else None))
    return sorted(found, key=lambda each: (-(each.last.time if each.last else 0.0), each.title))


def _is_read(message: Message, user: str) -> bool:
    return message.author == user or any(each.user == user and each.read for each in message.receipts)


def open_conversation(call: Call) -> ConversationFound:
    """The conversation with these users: the one there is, or a new one."""
    return ConversationFound(call.team.messages.conversation(call.takes.users))


def messages(call: Call) -> Page[Message]:
    """The messages of a scope: page 0 has the newest, the oldest of them first."""
    thread = call.team.messages.thread(call.scope)[::-1]
    page = page_of(thread, call.query)
    return Page(page.items[::-1], page.total)


def send_message(call: Call) -> Message:
    """Send a message."""
    said: NewMessage = call.takes
    id = call.team.messages.send(call.scope, said.text, reply_to=said.reply_to, attachments=said.attachments)
    return call.team.messages.get(call.scope, id)


def mark_read(call: Call) -> None:
    """Mark a message as read."""
    call.team.messages.mark(call.scope, call.part("id"))


OF_SCOPE = "/api/scopes/{kind}/{scope}/messages"
OPERATIONS = (
    Operation("GET", "/api/conversations", conversations, "List conversations.", gives=list[Conversation]),
    Operation(
        *("POST", "/api/conversations", open_conversation, "Find or begin a conversation."),
        *(ConversationWish, ConversationFound),
    ),
    Operation("GET", OF_SCOPE, messages, "List messages, the newest last.", gives=Page[Message], query=Slice),
    Operation("POST", OF_SCOPE, send_message, "Send a message.", NewMessage, Message, status=201),
    Operation("POST", f"{OF_SCOPE}/{{id}}/read", mark_read, "Mark a message as read.", status=204),
)
