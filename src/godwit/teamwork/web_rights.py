"""Operations of the HTTP API: grants that let others read documents, and limits of searches and subscriptions."""

import msgspec

from godwit.teamwork.access import Grant
from godwit.teamwork.web_calls import Call, Operation
from godwit.teamwork.web_documents import ONE as ONE_DOCUMENT

__all__ = ["OPERATIONS"]


class TeamLimits(msgspec.Struct, frozen=True):
    """What members of the team may ask for; null: everything."""

    search: list[Grant] | None
    subscribe: list[Grant] | None


class LimitsChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """New limits; null ends a limit, and one that is left out stays."""

    search: list[Grant] | msgspec.UnsetType | None = msgspec.UNSET
    subscribe: list[Grant] | msgspec.UnsetType | None = msgspec.UNSET


def limits(call: Call) -> TeamLimits:
    """What members of the team may search for and subscribe to."""
    return TeamLimits(call.team.rights.search_limits(), call.team.rights.subscription_limits())


def set_limits(call: Call) -> TeamLimits:
    """Limit searches or subscriptions, or end a limit."""
    said: LimitsChange = call.takes
    if said.search is not msgspec.UNSET:
        call.team.rights.limit_searches(said.search)
    if said.subscribe is not msgspec.UNSET:
        call.team.rights.limit_subscriptions(said.subscribe)
    return limits(call)


def scope_rights(call: Call) -> list[Grant]:
    """Who else may read documents of a scope."""
    return call.team.rights.shown_scope(call.scope)


def set_scope_rights(call: Call) -> list[Grant]:
    """Let others than members read documents of a scope: these, and nobody else."""
    call.team.rights.show_scope(call.scope, call.takes)
    return scope_rights(call)


def document_rights(call: Call) -> list[Grant]:
    """Who else may read a document."""
    return call.team.rights.shown(call.scope, call.part("id"))


def set_document_rights(call: Call) -> list[Grant]:
    """Let others than members read a document: these, and nobody else."""
    call.team.rights.show(call.scope, call.part("id"), call.takes)
    return document_rights(call)


OF_TEAM, OF_SCOPE, OF_DOCUMENT = "/api/rights", "/api/scopes/{kind}/{scope}/rights", f"{ONE_DOCUMENT}/rights"
OPERATIONS = (
    Operation("GET", OF_TEAM, limits, "Show limits of searches and subscriptions.", gives=TeamLimits),
    Operation("PATCH", OF_TEAM, set_limits, "Limit searches or subscriptions.", LimitsChange, TeamLimits),
    Operation("GET", OF_SCOPE, scope_rights, "List who else may read documents.", gives=list[Grant]),
    Operation("PUT", OF_SCOPE, set_scope_rights, "Let others read documents of a scope.", list[Grant], list[Grant]),
    Operation("GET", OF_DOCUMENT, document_rights, "List who else may read a document.", gives=list[Grant]),
    Operation("PUT", OF_DOCUMENT, set_document_rights, "Let others read a document.", list[Grant], list[Grant]),
)
