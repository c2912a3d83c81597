"""Rows of a table of events as events: one by one, for operations that need whole events.

*Rules.*
1. A reserved column may be missing, and is null then; all others are attributes.
2. `rest` names a column with the JSON of attributes that have no column (`log_columns.py`).
"""

import json
from typing import Any

from godwit.errors import GodwitError, PipelineError
from godwit.filters.events import Attributes, Event, flattened
from godwit.filters.language import parse
from godwit.pipeline.columns import OWN, attributes_of

__all__ = ["events_of_rows"]


def events_of_rows(rows: Any, rest: str = "") -> list[Event]:
    """The rows of an Arrow batch or table as events; all at once, so only for few."""
    names = rows.schema.names
    further = rows.column(rest).to_pylist() if rest else [None] * rows.num_rows
    attributes = attributes_of(rows.drop_columns([rest]) if rest else rows)
    own = rows.select([name for name in OWN if name in names]).to_pylist()
    if not own:
        own = [{}] * rows.num_rows
    return [_event(*each) for each in zip(attributes, further, own, strict=True)]


def _event(attributes: Attributes, rest: str | None, row: dict[str, Any]) -> Event:
    try:
        if rest is not None:
            attributes = {**flattened(json.loads(rest)), **attributes}
        return Event(
            attributes,
            publisher=row.get("publisher") or "",
            sequence=row.get("sequence") or 0,
            payload=row.get("payload"),
            content_type=row.get("content_type"),
            published_at=_seconds(row.get("published_at")),
            expires_at=_seconds(row.get("expires_at")),
            to=None if row.get("to") is None else parse(row["to"]),
        )
    except (GodwitError, ValueError) as error:
        place = f"{row.get('publisher')}:{row.get('sequence')}"
        raise PipelineError(f"the row of {place} is not an event: {error}") from None


def _seconds(time: Any) -> float | None:
    return None if time is None else float(time.timestamp())
