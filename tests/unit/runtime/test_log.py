"""What a broker says about itself: a line for each thing, whatever peers have said."""

import io
import json
import logging

import pytest

from godwit.runtime.log import LibraryLogHandler, make_log

FORGED = "b9\n2026-01-01T00:00:00Z [info] started \x1b[2J\x9b31m\u2028 is not a neighbour"


@pytest.mark.parametrize("format", ["text", "json"])
def test_what_a_peer_says_makes_no_line_and_moves_no_cursor(format: str) -> None:
    stream = io.StringIO()
    make_log(format=format, to=stream).info("connection closed", reason=FORGED)  # type: ignore[arg-type]
    written = stream.getvalue()
    assert written.count("\n") == 1
    assert "\x1b[2J" not in written
    if format == "json":
        assert json.loads(written)["reason"] == FORGED
    else:
        assert written.rstrip("\n").isprintable()


def test_what_libraries_say_is_in_the_same_form() -> None:
    stream = io.StringIO()
    logger = logging.Logger("a.library")
    logger.addHandler(LibraryLogHandler(make_log(format="json", to=stream)))
    logger.info("not for people")
    logger.warning("this is %s", "odd")
    try:
        raise ValueError("wrong")
    except ValueError:
        logger.exception("it failed")
    first, second = map(json.loads, stream.getvalue().splitlines())
    assert (first["level"], first["source"], first["reason"]) == ("warning", "a.library", "this is odd")
    assert second["level"] == "error"
    assert "ValueError: wrong" in second["traceback"]


class Full(io.StringIO):
    """A file on a disk that is full."""

    def write(self, text: str) -> int:
        raise OSError(28, "No space left on device")


def test_a_log_that_nobody_can_write_to_costs_nothing_but_itself() -> None:
    closed = io.StringIO()
    log = make_log(format="json", to=closed)
    closed.close()
    log.error("trouble")
    make_log(format="text", to=Full()).error("trouble")
