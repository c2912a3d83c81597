"""The formats that archives come in: each turns a piece of a file into rows, and says of a bad one what is wrong."""

from godwit.pipeline.formats.rows import BadRow, EventHeader, Options, Row
from godwit.pipeline.formats.splits import Split

__all__ = ["BadRow", "EventHeader", "Options", "Row", "Split"]
