"""The options of `match` and `stream` for a sink of another package."""

from typing import TYPE_CHECKING, Annotated

from godwit.cli.own_modules import allow_modules_here
from godwit.cli.signatures import Option
from godwit.errors import PipelineError

if TYPE_CHECKING:
    from godwit.pipeline.match_sink import MatchSink

__all__ = ["SinkName", "SinkOptions", "read_sink"]

SinkName = Annotated[
    str,
    Option(metavar="NAME", help="Sink that also gets the matches: an installed one, or module:Class."),
]
SinkOptions = Annotated[
    list[str] | None,
    Option("--sink-option", metavar="KEY=VALUE", help="Option of the sink. Repeatable."),
]


def read_sink(name: str, options: list[str] | None) -> "MatchSink | None":
    """The sink that the user named, with its options, or None."""
    from godwit.pipeline.match_sink import sink_of

    pairs = [text.partition("=") for text in options or ()]
    for text, (key, equals, _) in zip(options or (), pairs, strict=True):
        if not key or not equals:
            raise PipelineError(f"--sink-option is {text!r}: it must be KEY=VALUE")
    if not name:
        if pairs:
            raise PipelineError("--sink-option needs --sink, the name of a sink")
        return None
    allow_modules_here()
    return sink_of(name, {key: value for key, _, value in pairs})
