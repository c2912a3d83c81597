"""What a running broker says about itself: one line for each thing, on standard error.

*Rules.*
1. On a terminal lines are for people, elsewhere each is one JSON object, unless the configuration says otherwise.
2. Events, contexts, passwords, tokens and keys are never logged: names of brokers and clients, and reasons, are.
3. What a peer has said stands in a line and makes none: both renderers escape control characters.
4. What libraries say goes the same way.
5. Whoever reads the log may be gone, and the disk it is on may be full: then what is said is lost, and nothing else.
"""

import logging
import sys
import traceback
from contextlib import suppress
from typing import Any, Literal, Protocol, TextIO, cast

from godwit.errors import ConfigurationError

__all__ = ["LibraryLogHandler", "Log", "make_log"]

LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40}


class Log(Protocol):
    """Where to say what happens."""

    def debug(self, event: str, **fields: Any) -> Any:
        """For who looks for a fault."""

    def info(self, event: str, **fields: Any) -> Any:
        """Something has happened, as it should."""

    def warning(self, event: str, **fields: Any) -> Any:
        """Somebody should look at this one day."""

    def error(self, event: str, **fields: Any) -> Any:
        """Somebody should look at this now."""


def make_log(level: str = "info", format: Literal["auto", "text", "json"] = "auto", to: TextIO | None = None) -> Log:
    """A log on standard error, or on another stream."""
    try:
        import structlog
    except ImportError:
        raise ConfigurationError("a broker needs structlog, which is not installed: pip install godwit") from None

    stream = sys.stderr if to is None else to
    is_text = format == "text" or (format == "auto" and stream.isatty())
    renderer = (
        structlog.dev.ConsoleRenderer(colors=stream.isatty(), pad_event_to=24)
        if is_text
        else structlog.processors.JSONRenderer(default=str, ensure_ascii=False)
    )
    log: Log = structlog.wrap_logger(
        structlog.PrintLogger(cast(TextIO, _Patient(stream))),
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True, key="at"),
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(LEVELS[level]),
        cache_logger_on_first_use=False,
    )
    return log


class _Patient:
    """A stream that never fails. (rule 5)"""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        with suppress(OSError, ValueError):  # ValueError: it is closed
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(OSError, ValueError):
            self._stream.flush()


class LibraryLogHandler(logging.Handler):
    """Takes what libraries log to a log of ours. (rule 4)"""

    def __init__(self, log: Log) -> None:
        super().__init__(logging.WARNING)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        """Somebody has said this."""
        error = record.exc_info[1] if record.exc_info else None
        say = self._log.error if record.levelno >= logging.ERROR else self._log.warning
        more = {} if error is None else {"traceback": "".join(traceback.format_exception(error))}
        say("library", source=record.name, reason=record.getMessage(), **more)
