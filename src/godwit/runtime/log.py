"""The log of a running broker: one line per entry, on standard error.

*Rules.*
1. On a terminal lines are text, elsewhere each is one JSON object, unless configured otherwise.
2. Events, contexts, passwords, tokens and keys are never logged: names of brokers and clients, and reasons, are.
3. Text of a peer cannot add lines: both renderers escape control characters.
4. Log entries of libraries go the same way.
5. If the reader of the log has gone, or its disk is full, the lines are lost, and nothing else fails.
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
    """The interface of a log."""

    def debug(self, event: str, **fields: Any) -> Any:
        """Details for debugging."""

    def info(self, event: str, **fields: Any) -> Any:
        """Normal operation."""

    def warning(self, event: str, **fields: Any) -> Any:
        """A problem that should be looked at."""

    def error(self, event: str, **fields: Any) -> Any:
        """A problem that needs attention now."""


def make_log(level: str = "info", format: Literal["auto", "text", "json"] = "auto", to: TextIO | None = None) -> Log:
    """A log on standard error, or on another stream."""
    structlog = _structlog()
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


def _structlog() -> Any:
    """The library, without its support for tracebacks, which the log never has: 66 modules and 3 MB."""
    hidden = {} if "rich" in sys.modules else {"rich": None}
    sys.modules.update(hidden)  # type: ignore[arg-type]
    try:
        import structlog
    except ImportError:
        raise ConfigurationError("a broker needs structlog, which is not installed: pip install godwit") from None
    finally:
        for name in hidden:
            del sys.modules[name]
    return structlog


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
    """Passes log entries of libraries to the broker's log. (rule 4)"""

    def __init__(self, log: Log) -> None:
        super().__init__(logging.WARNING)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        """Log an entry of a library."""
        error = record.exc_info[1] if record.exc_info else None
        say = self._log.error if record.levelno >= logging.ERROR else self._log.warning
        more = {} if error is None else {"traceback": "".join(traceback.format_exception(error))}
        say("library", source=record.name, reason=record.getMessage(), **more)
