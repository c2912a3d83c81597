"""Administration of a running broker: one table of actions, for HTTP and other interfaces.

*Theory.* Most actions are inputs of the machine (`broker/administration.py`). The rest concern the process: the level
of its log, its configuration, a copy of its journal. Each has a name, fields and a function. The caller has checked
that the user is an administrator.

*Rules.*
1. Each action has one line in the log: user, address, action. (`SecurityLog.done`)
2. An action returns when the machine has carried it out and it is in the journal.
3. A field that is missing, unknown or too long is an error that lists the allowed fields.
"""

from collections.abc import Awaitable, Callable, Mapping
from itertools import islice
from typing import Any, NamedTuple, Protocol

from godwit.broker.administration import ClearRetained, DropQueue, EndSession, reason_of
from godwit.broker.effects import ComponentInput
from godwit.broker.queues import event_size
from godwit.broker.retained import Retained
from godwit.errors import GodwitError
from godwit.filters.language import parse
from godwit.runtime.log import LEVELS
from godwit.runtime.node import Node
from godwit.runtime.question_parts import SHOWN, cut_values

__all__ = ["ACTIONS", "Actions", "NotFound", "Process"]

FIELD_CHARS_MAX = 1_000


class NotFound(GodwitError):
    """The object of the action does not exist here."""


class Process(Protocol):
    """The actions that the broker's process provides."""

    def set_log_level(self, level: str) -> None:
        """Set the log level, until the next change of the configuration."""

    async def reload(self) -> dict[str, Any]:
        """Read the configuration again; returns the changed keys and those that need a restart."""


class Action(NamedTuple):
    """An action and its fields."""

    needs: tuple[str, ...]
    takes: tuple[str, ...]
    run: Callable[["Actions", Mapping[str, str]], Awaitable[dict[str, Any]]]


class Actions:
    """The actions of one broker. `process` is None if only the machine can be changed."""

    def __init__(self, node: Node, process: Process | None = None) -> None:
        self._node = node
        self.process = process

    async def run(self, name: str, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Carry out an action. GodwitError if it cannot be done. (rules 2, 3)"""
        action = ACTIONS.get(name)
        if action is None:
            raise NotFound(f"there is no action {name[:40]!r}: there are {', '.join(ACTIONS)}")
        allowed = (*action.needs, *action.takes)
        for field, value in fields.items():
            if field not in allowed:
                raise GodwitError(f"{name} takes no {field[:40]!r}: it takes {', '.join(allowed) or 'nothing'}")
            if not isinstance(value, str) or len(value) > FIELD_CHARS_MAX:
                raise GodwitError(f"{field} must be a text of at most {FIELD_CHARS_MAX} characters")
        for field in action.needs:
            if not fields.get(field):
                raise GodwitError(f"{name} needs {field}")
        return await action.run(self, fields)

    # ------------------------------------------------------------ the machine

    @property
    def _machine(self) -> Any:
        return self._node.machine

    async def _tell(self, input: ComponentInput) -> None:
        self._node.tell(input)
        await self._node.quiet()

    def _session(self, client: str) -> Any:
        session = self._machine.sessions.session(client)
        if session is None:
            raise NotFound(f"{client!r} has no session here")
        return session

    async def disconnect(self, fields: Mapping[str, str]) -> dict[str, Any]:
        """Close the connection of a client; its session stays."""
        client = fields["client"]
        connection = self._session(client).connection
        principal = getattr(self._node.ports.get(connection), "principal", None)
        if principal is not None:
            principal.end(reason_of("closed the connection", fields.get("reason", "")), keeps_rights=True)
            await self._node.quiet()
        return {"client": client, "disconnected": principal is not None}

    async def end_session(self, fields: Mapping[str, str]) -> dict[str, Any]:
        """End the session of a client."""
        client = fields["client"]
        queued = len(self._session(client).queue)
        await self._tell(EndSession(client, fields.get("reason", "")))
        return {"client": client, "ended": True, "dropped": queued}

    async def drop_queue(self, fields: Mapping[str, str]) -> dict[str, Any]:
        """Drop the queue of a client."""
        client = fields["client"]
        before = len(self._session(client).queue)
        await self._tell(DropQueue(client))
        session = self._machine.sessions.session(client)
        left = 0 if session is None else len(session.queue)
        return {"client": client, "dropped": before - left, "left": left}

    async def clear_retained(self, fields: Mapping[str, str]) -> dict[str, Any]:
        """Clear a retained event in the whole network."""
        key = fields["key"]
        if self._machine.component(Retained).event(key) is None:
            raise NotFound(f"there is no retained event with the key {key!r}")
        await self._tell(ClearRetained(key))
        return {"key": key, "cleared": True}

    # ------------------------------------------------------------ the process

    def _around(self) -> Process:
        if self.process is None:
            raise GodwitError("this broker was not started by `godwit serve`: it has no configuration to change")
        return self.process

    async def log_level(self, fields: Mapping[str, str]) -> dict[str, Any]:
        """Set the level of the log."""
        level = fields["level"]
        if level not in LEVELS:
            raise GodwitError(f"level is {level[:40]!r}: allowed are {', '.join(LEVELS)}")
        self._around().set_log_level(level)
        return {"level": level}

    async def reload(self, fields: Mapping[str, str]) -> dict[str, Any]:
        """Read the configuration again."""
        return await self._around().reload()

    # ------------------------------------------------------------ looking

    def retained(self, filter: str = "", limit: int = SHOWN) -> dict[str, Any]:
        """Retained events that a filter matches, each with its key."""
        wanted = parse(filter) if filter else None
        found = (
            (key, event)
            for key, event in self._machine.component(Retained).items()
            if wanted is None or wanted.matches(event)
        )
        rows = [
            {
                "key": key,
                "event": f"{event.publisher}:{event.sequence}",
                "attributes": cut_values(event.attributes),
                "bytes": event_size(event),
                "published_at": event.published_at,
                "expires_at": event.expires_at,
            }
            for key, event in islice(found, limit)
        ]
        return {"retained": rows, "count": len(self._machine.component(Retained))}

    def queue(self, client: str, limit: int = SHOWN) -> dict[str, Any]:
        """The queue of a client, the next event first."""
        session = self._session(client)
        items = session.queue.waiting()
        rows = [
            {
                "number": item.number,
                "event": f"{item.event.publisher}:{item.event.sequence}",
                "state": "sent" if item.number <= session.queue.sent_up_to else "waiting",
                "for": list(item.subscriptions),
                "attributes": cut_values(item.event.attributes),
                "queued_at": item.queued_at,
            }
            for item in items[:limit]
        ]
        return {"client": client, "queue": rows, "count": len(items), "bytes": session.queue.bytes}


ACTIONS: dict[str, Action] = {
    "disconnect": Action(("client",), ("reason",), Actions.disconnect),
    "end-session": Action(("client",), ("reason",), Actions.end_session),
    "drop-queue": Action(("client",), (), Actions.drop_queue),
    "clear-retained": Action(("key",), (), Actions.clear_retained),
    "log-level": Action(("level",), (), Actions.log_level),
    "reload": Action((), (), Actions.reload),
}
"""The actions by name."""
