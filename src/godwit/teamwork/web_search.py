"""Operations of the HTTP API: searches over all peers, as a stream of results or as one answer."""

from typing import Annotated, Any

import msgspec

from godwit.runtime.http_requests import Problem, json_response
from godwit.teamwork.query_languages import DEFAULT, LANGUAGE_HELP, parse_profile_query
from godwit.teamwork.searching import KINDS, Searching, SearchProgress, SearchResult
from godwit.teamwork.web_calls import STREAM, Call, Operation
from godwit.teamwork.web_streams import EventStream

__all__ = ["OPERATIONS"]

Wait = Annotated[float, msgspec.Meta(gt=0, le=60, description="Time to wait for peers, in seconds.")]
Language = Annotated[str, msgspec.Meta(description=LANGUAGE_HELP)]
Kinds = Annotated[str, msgspec.Meta(description="Kinds of profiles, separated by commas: artefact, user, community.")]


class SearchQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is searched for: a query over profiles, words of texts, or both."""

    query: str = ""
    words: str = ""
    language: Language = DEFAULT
    kinds: Kinds = ",".join(KINDS)
    scope: Annotated[str, msgspec.Meta(description="Search in this scope alone.")] = ""
    stays_open: Annotated[bool, msgspec.Meta(description="Also accept answers of peers that reconnect later.")] = False
    wait_s: Wait = 5.0


class SearchAnswer(msgspec.Struct, frozen=True):
    """All results until now, the best first, and who has not answered."""

    results: list[SearchResult]
    progress: SearchProgress


async def search(call: Call) -> Any:
    """Search: a stream of `result` and `progress` events, then `end`; or one answer, for clients that accept only
    JSON."""
    asked: SearchQuery = call.query
    kinds = tuple(kind.strip() for kind in asked.kinds.split(",") if kind.strip())
    if unknown := [kind for kind in kinds if kind not in KINDS]:
        raise Problem(400, f"kinds has {unknown[0]!r}: allowed are {', '.join(KINDS)}")
    if asked.query:
        parse_profile_query(asked.language, asked.query)  # whose error says where
    searching: Searching = call.team.search(
        asked.query,
        asked.language,
        words=asked.words,
        kinds=kinds,
        scopes=[asked.scope] if asked.scope else None,
        stays_open=asked.stays_open,
        wait_s=asked.wait_s,
    )
    if STREAM not in call.request.headers.get("accept", ""):
        try:
            results = await searching.finished()
            return json_response(SearchAnswer(results, searching.progress))
        finally:
            searching.end()
    try:
        stream = call.web.streams.new(call.user, call.key, on_gone=searching.end)
    except Problem:
        searching.end()
        raise
    call.web.background(_tell(searching, stream))
    return stream.response


async def _tell(searching: Searching, stream: EventStream) -> None:
    """Send results as they come, and who has answered whenever that has changed."""
    stream.tell("progress", searching.progress)
    async for result in searching:
        stream.tell("result", result)
        stream.tell("progress", searching.progress)
    stream.tell("end", searching.progress)
    stream.end()


OPERATIONS = (
    Operation(
        *("GET", "/api/search", search, "Search profiles and texts of all peers."),
        gives=SearchAnswer,
        query=SearchQuery,
        media=STREAM,
    ),
)
