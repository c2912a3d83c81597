"""Operations of the HTTP API: the state of the peer, events of the team, and the audit log."""

from typing import Any

import msgspec

from godwit.teamwork.audit_log import AuditEntry
from godwit.teamwork.team import Status
from godwit.teamwork.web_calls import ANYBODY, OPERATOR, ROWS, STREAM, Call, Limit, Operation

__all__ = ["OPERATIONS"]


class AuditQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which entries of the audit log are asked for: those after a number, the earliest or the newest first."""

    since: int = 0
    newest: bool = False
    limit: Limit = ROWS


class Health(msgspec.Struct, frozen=True):
    """That the peer answers."""

    ok: bool
    version: str


def health(call: Call) -> Health:
    """Whether the peer answers."""
    return Health(True, call.web.version)


def status(call: Call) -> Status:
    """The peer: whose it is, at which broker, and what waits; its own user sees who is here, too."""
    found: Status = call.team.status()
    return found if call.is_own_peer else msgspec.structs.replace(found, peers={}, faults=(), lost=())


def news(call: Call) -> Any:
    """A stream of what happens: an event `change` for each change, with its kind, scope, record and author."""
    return call.web.streams.new(call.user, call.key).response


def audit(call: Call) -> list[AuditEntry]:
    """Who was shown what."""
    return call.team.audit.entries(call.query.since, count=call.query.limit, newest=call.query.newest)


OPERATIONS = (
    Operation("GET", "/healthz", health, "Show whether the peer answers.", gives=Health, right=ANYBODY),
    Operation("GET", "/api/status", status, "Show the state of the peer.", gives=Status),
    Operation("GET", "/api/news", news, "Follow what happens in the team.", media=STREAM),
    Operation(
        *("GET", "/api/audit", audit, "List who was shown what (operator only)."),
        gives=list[AuditEntry],
        query=AuditQuery,
        right=OPERATOR,
    ),
)
