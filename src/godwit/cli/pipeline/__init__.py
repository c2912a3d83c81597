"""`godwit pipeline`: match archives and streams, mine movements, analyse runs, with Spark. One module per command."""

from godwit.cli.pipeline import (
    analyse_command,
    compact_command,
    dryrun_command,
    ingest_command,
    match_table_command,
    mobility_command,
    stream_command,
)
from godwit.cli.signatures import Group

__all__ = ["app"]

app = Group(
    help="Match archives and streams, and analyse runs, on Spark. Also mine movement from traces of positions.",
)


app.add("ingest")(ingest_command.ingest)
app.add("match")(match_table_command.match)
app.add("stream", short_help="Match events as they arrive.")(stream_command.stream)
app.add("compact", short_help="Merge the files of a stream's output.")(compact_command.compact)
app.add("dryrun", short_help="Show what a filter would have matched.")(dryrun_command.dryrun)
app.add("mobility")(mobility_command.mobility)
app.add("analyse", short_help="Compute the figures of runs from their traces.")(analyse_command.analyse)
