"""`godwit filter …`: check, explain and compare filters."""

import typer

__all__ = ["app"]

app = typer.Typer(help="Check, explain and compare filters.", no_args_is_help=True)


@app.command()
def check(text: str) -> None:
    """Say whether a filter is well formed."""
    typer.echo(text)


@app.command()
def covers(wide: str, narrow: str) -> None:
    """Say whether all that matches NARROW matches WIDE."""
    typer.echo(f"{wide} {narrow}")
