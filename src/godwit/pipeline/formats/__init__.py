"""The input formats: each converts a piece of a file to rows, with the reason for each bad row."""

from godwit.pipeline.formats.rows import BadRow, EventHeader, Options, Row
from godwit.pipeline.formats.splits import Split

__all__ = ["BadRow", "EventHeader", "Options", "Row", "Split"]
