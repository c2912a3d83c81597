"""`godwit pipeline`: archives and streams of events, movement and runs, on Spark. A module for each command."""

import typer

__all__ = ["app"]

app = typer.Typer(help="Match archives and streams, mine movement and analyse runs, on Spark.", no_args_is_help=True)


@app.callback()
def _pipeline() -> None:
    pass
