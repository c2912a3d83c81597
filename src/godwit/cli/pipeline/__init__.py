"""`godwit pipeline`: match archives and streams, mine movements, analyse runs, with Spark. One module per command."""

import typer

from godwit.cli.pipeline import (
    analyse_command,
    compact_command,
    dryrun_command,
    ingest_command,
    match_table_command,
    mobility_command,
    stream_command,
)

__all__ = ["app"]

app = typer.Typer(
    help="Match archives and streams, and analyse runs, on Spark. Also mine movement from traces of positions.",
    no_args_is_help=True,
)


@app.callback()
def _pipeline() -> None:
    pass


app.command("ingest")(ingest_command.ingest)
app.command("match")(match_table_command.match)
app.command("stream", short_help="Match events as they come.")(stream_command.stream)
app.command("compact", short_help="Merge the files of a stream's output.")(compact_command.compact)
app.command("dryrun", short_help="Show what a filter would have matched.")(dryrun_command.dryrun)
app.command("mobility")(mobility_command.mobility)
app.command("analyse", short_help="Compute the figures of runs from their traces.")(analyse_command.analyse)
