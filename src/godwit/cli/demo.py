"""`godwit demo`: the filters at work on a small event stream."""

import typer

__all__ = ["demo"]


def demo() -> None:
    """See the filters at work on a small event stream."""
    typer.echo("The demo comes with the filters.")
