"""`godwit pipeline`: archives and streams of events, movement and runs, on Spark. A module for each command."""

import typer

from godwit.cli.pipeline import (
    analyse_command,
    dryrun_command,
    ingest_command,
    match_command,
    mobility_command,
    stream_command,
)

__all__ = ["app"]

app = typer.Typer(help="Match archives and streams, mine movement and analyse runs, on Spark.", no_args_is_help=True)


@app.callback()
def _pipeline() -> None:
    pass


app.command("dryrun")(dryrun_command.dryrun)
app.command("ingest")(ingest_command.ingest)
app.command("match")(match_command.match)
app.command("mobility")(mobility_command.mobility)
app.command("analyse")(analyse_command.analyse)
app.command("stream")(stream_command.stream)
