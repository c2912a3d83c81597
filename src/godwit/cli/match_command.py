"""`godwit match`: which subscriptions does each event of a file match?"""

import typer

__all__ = ["match"]


def match() -> None:
    """Match a file of events against a file of subscriptions."""
    typer.echo("Matching comes with the index.")
