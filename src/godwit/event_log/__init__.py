"""The event log: events on disk, one JSON object a line, in a folder that any program may read while it is written.

The broker side (`godwit sub --log`, `godwit pub --log`) and the Spark pipeline both use this room; it knows neither.
`docs/reference/event_log.md` describes the format for other programs.

| module | subject |
|---|---|
| `log_format` | name and version of the format, file names, positions, the files beside the segments |
| `segment_files` | which segments exist, and which were removed |
| `log_writer` | `EventLog`: append events, each once; `Retention`: how much is kept |
| `log_reader` | whole lines behind a position |
| `log_progress` | `PublishProgress`: how far a log has been published |
"""

from godwit.event_log.log_format import FORMAT, START, Position
from godwit.event_log.log_progress import PublishProgress
from godwit.event_log.log_reader import lines_from
from godwit.event_log.log_writer import EventLog, Retention
from godwit.event_log.segment_files import gone_before, segments

__all__ = [
    "FORMAT",
    "START",
    "EventLog",
    "Position",
    "PublishProgress",
    "Retention",
    "gone_before",
    "lines_from",
    "segments",
]
