"""Where the inputs of a node come from: over which link or connection, and whether a client waits for an answer."""

from godwit.broker.effects import Closed, Heard, Input, LinkDown, LinkUp, Opened
from godwit.broker.messages import Note, Received, Request

__all__ = ["TIMERS", "client_line", "has_request", "is_note", "note_open", "party_of", "sender_of"]

TIMERS = ""  # the line of timers and of what concerns all


def client_line(client: str) -> str:
    """The line of a client: over all of its connections its inputs stay in order."""
    return f"@{client}"


def party_of(line: str) -> str:
    """Whose line it is: all clients of a user are one party, any other line is one of its own."""
    return line.partition("/")[0] if line.startswith("@") else line


def sender_of(input: Input | None) -> str:
    """The link or connection that an input came over; `TIMERS`: it is a timer's."""
    return str(getattr(input, "connection", getattr(input, "peer", TIMERS)))


def has_request(inputs: list[tuple[Input, bytes]]) -> bool:
    """Whether a client waits for the effects of one of these inputs."""
    for input, _ in inputs:  # noqa: SIM110 (`any` takes longer)
        if type(input) is Heard and type(input.message) is not Received:
            return True
    return False


def is_note(input: Input | None) -> bool:
    """Whether a client has noted something with its session, which the next request belongs to."""
    return type(input) is Heard and type(input.message) is Request and type(input.message.wish) is Note


def note_open(input: Input, open: dict[Input, None]) -> None:
    """Keep in mind what is open, as what is to be heard when it is gone."""
    if isinstance(input, LinkUp):
        open[LinkDown(input.peer)] = None
    elif isinstance(input, Opened):
        open[Closed(input.connection)] = None
    elif isinstance(input, LinkDown | Closed):
        open.pop(input, None)
