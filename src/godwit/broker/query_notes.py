"""Queries of subscriptions that a border broker's gateway tests, stored as notes of the session.

*Theory.* A client that cannot run the exact test of its query (MQTT, a browser, `curl`) has it run by the gateway of
its border broker. The machine routes by the filter and does not look at the query. It keeps the query's language and
text with the session: so they are in the journal with the subscription, and move with it. [motion §5]

*Rules.*
1. A note is made, replaced and removed with its subscription, in one step of the machine: neither is there alone.
2. Notes count against the limits of notes (`Limits.note_bytes_max`, `notes_bytes_max`, `notes_max`).
3. What is read may be another version's, or a client's own: a note that does not parse counts as missing.
"""

from collections.abc import Mapping

import msgspec

from godwit.broker.messages import Note

__all__ = ["NO_QUERIES", "QUERY", "Queries", "queries_of", "query_note"]

QUERY = "query/"

Queries = tuple[tuple[str, str], ...]
"""Language and text of each query of a subscription: an event is wanted when all of them want it."""

NO_QUERIES: Queries = ()
_QUERIES = msgspec.msgpack.Decoder(Queries)


def query_note(name: str, queries: Queries) -> Note:
    """The note of a subscription's queries; without any, the one that removes it."""
    return Note(QUERY + name, msgspec.msgpack.encode(queries) if queries else None)


def queries_of(notes: Mapping[str, bytes]) -> dict[str, Queries]:
    """The queries of a session by subscription. (rule 3)"""
    found: dict[str, Queries] = {}
    for key, value in notes.items():
        if key.startswith(QUERY):
            try:
                found[key.removeprefix(QUERY)] = _QUERIES.decode(value)
            except msgspec.MsgspecError:
                continue
    return found
