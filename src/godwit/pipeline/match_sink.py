"""Sinks: further destinations of matches, provided by other packages.

*Theory.* A sink gets the matches of each batch as a DataFrame, after they were written to the table of matches, and
writes them elsewhere, such as to a database or a topic. It is found by the name of its entry point in the group
`godwit.sinks`, or as `module:Name` (`registry.py`).

*Rules.*
1. A batch is handed over after it is complete in the table and before its files may be merged.
2. After a crash the last batch may be handed over again, with the same number and the same rows. A sink that must write
   each match once remembers the number of the batch, or overwrites what it wrote under that number.
3. A sink that fails ends the stream. The batch is handed over again when the stream is started again.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from godwit.errors import ConfigurationError, PipelineError
from godwit.registry import Registry

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["SINKS", "MakeSink", "MatchSink", "hand_over", "sink_of"]


class MatchSink(Protocol):
    """Receives the matches of a stream, batch by batch."""

    def write(self, batch: int, matches: "DataFrame") -> None:
        """Receive the matches of a batch: the columns of a table of matches."""


class MakeSink(Protocol):
    """Makes a sink from its options, which are texts."""

    def __call__(self, options: Mapping[str, str]) -> MatchSink:
        """The sink; `ValueError` if the options are invalid."""


SINKS: Registry[MakeSink] = Registry("sink", "godwit.sinks", by_module=True)


def sink_of(name: str, options: Mapping[str, str]) -> MatchSink:
    """The sink of that name; `PipelineError` if there is none or if it refuses its options."""
    try:
        return SINKS.part(name)(options)
    except ConfigurationError as error:
        raise PipelineError(str(error)) from None
    except (ValueError, KeyError, TypeError) as error:
        raise PipelineError(f"the sink {name!r} cannot be made: {type(error).__name__}: {error}") from error


def hand_over(sink: MatchSink, batch: int, matches: "DataFrame") -> None:
    """Give a batch to a sink; `PipelineError` if it fails. (rule 3)"""
    try:
        sink.write(batch, matches)
    except Exception as error:
        raise PipelineError(
            f"the sink failed at batch {batch}: {type(error).__name__}: {error}. "
            "Its matches are in the table; the same command hands them over again"
        ) from error
