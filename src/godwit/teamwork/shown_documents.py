"""Documents that are shown to a user who is not in their community: a search finds them, at the peers of others.

The names of communities that the user is not in are not known here, so the peers of the whole team are asked.
"""

from godwit.teamwork.searching import SearchResult
from godwit.teamwork.team import Team

__all__ = ["shown_documents"]


async def shown_documents(team: Team, word: str, scope: str = "") -> list[SearchResult]:
    """The documents with this name or identifier, as the peers show them to the user; of one scope, if told."""
    quote = next((each for each in "'\"" if each not in word), "")
    if not word or not quote:
        return []  # a query cannot quote it
    quoted = f"{quote}{word}{quote}"
    query = f"artefact[@id = {quoted} $or$ name = {quoted}]"
    searching = team.search(query, "xql", kinds=("artefact",), scopes=[scope] if scope else None)
    try:
        return await searching.finished()
    finally:
        searching.end()
