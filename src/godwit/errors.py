"""Every exception Godwit raises on purpose: one tree, with `GodwitError` at its root.

Catch `GodwitError` to catch them all. Errors about invalid values are `ValueError`s, too, so generic code handles them.

    GodwitError
      BadValue              a value no attribute can hold: NaN, an infinity, a point off the globe
      BadEvent              an event that is not well formed
      FilterError           a filter that cannot be used
        FilterSyntaxError     its text does not parse; has the position and what is expected there
        FilterTooBig          it is larger or deeper than the limits allow
        Unbound               it refers to the subscriber's own context, and is not bound to one
      SubscriptionError     an unknown subscription, or one that already exists
      Refused               a broker has refused a request of a client; has the reason
      NotConnected          no broker accepted the connection of a client, or its events, in time
      PeerFault             a neighbour or client broke the protocol: its link is closed, the broker goes on
        MqttFault             an MQTT peer did; has the reason code of the standard
        NotAdmitted           it may not log in, or not by that name; has the cause
      ScenarioError         a scenario that cannot be run
      ConfigurationError    a broker's configuration that cannot be used; lists all errors
      JournalError          a broker's journal that cannot be read or written
      SnapshotError         a snapshot of another format or version, or of another machine
      EventLogError         an event log that cannot be read or written
      StoreError            a client's store of subscriptions that cannot be read or written
      RepositoryError       the stored data of a peer of a team cannot be read or written
        RepositoryInUse       another process uses the folder of this peer
        ContentError          a file that cannot be stored or read: no room, over a quota, damaged
          NotHere               its content is at other peers: fetch it first
      TransferError         a file that cannot be given to other peers, or fetched from them
      ProfileError          a profile, or an extension of profiles, that cannot be used
      SecurityError         users, keys or certificates that cannot be used
      PipelineError         Spark cannot start, or a table, file or setting of the pipeline cannot be used
      IndexFileError        not an index file, an unreadable one, or an index that cannot be stored
"""

from typing import Any

__all__ = [
    "BadEvent",
    "BadValue",
    "ConfigurationError",
    "ContentError",
    "EventLogError",
    "FilterError",
    "FilterSyntaxError",
    "FilterTooBig",
    "GodwitError",
    "IndexFileError",
    "JournalError",
    "MqttFault",
    "NotAdmitted",
    "NotConnected",
    "NotHere",
    "PeerFault",
    "PipelineError",
    "ProfileError",
    "QueryTooCostly",
    "Refused",
    "RepositoryError",
    "RepositoryInUse",
    "ScenarioError",
    "SecurityError",
    "SnapshotError",
    "StoreError",
    "SubscriptionError",
    "TransferError",
    "Unbound",
]

EXCERPT_CHARS_MAX = 100  # characters of the faulty line, so that a filter of a megabyte has an error of two lines
EXPECTED_SHOWN_MAX = 12


class GodwitError(Exception):
    """Anything Godwit raises on purpose."""


class BadValue(GodwitError, ValueError):
    """A value that no attribute can hold, such as NaN, an infinity, or a point off the globe."""


class BadEvent(GodwitError, ValueError):
    """An event that is not well formed."""


class FilterError(GodwitError, ValueError):
    """A filter that cannot be used."""


class FilterSyntaxError(FilterError):
    """The text of a filter does not parse. `str()` draws the faulty line with a caret under the place.

    `line` and `column` count from 1. `expected` lists what is allowed there.
    """

    def __init__(self, message: str, line: int, column: int, source: str, expected: tuple[str, ...] = ()) -> None:
        super().__init__(message, line, column, source, expected)
        self.message = message
        self.line = line
        self.column = column
        self.source = source
        self.expected = expected

    @classmethod
    def at(cls, offset: int, message: str, source: str, expected: tuple[str, ...] = ()) -> "FilterSyntaxError":
        """The error at an offset, with its line and column counted."""
        line, column = source.count("\n", 0, offset) + 1, offset - source.rfind("\n", 0, offset)
        return cls(message, line, column, source, expected)

    def __str__(self) -> str:
        excerpt, caret_at = _excerpt(self.source, self.line, self.column)
        drawn = [f"line {self.line}, column {self.column}: {self.message}", f"  {excerpt}", f"  {' ' * caret_at}^"]
        if self.expected:
            drawn.append(f"expected {_one_of(self.expected)}")
        return "\n".join(drawn)


class FilterTooBig(FilterError):
    """A filter larger, deeper or with more alternatives than the limits allow."""


class QueryTooCostly(FilterError):
    """The exact test of a query exceeds its limit of steps."""


class Unbound(FilterError):
    """A filter still refers to the subscriber's own context (`my.x`, `myloc`): bind `names` before matching."""

    def __init__(self, *names: str) -> None:
        super().__init__(*names)
        self.names = names

    def __str__(self) -> str:
        return f"the filter still refers to {', '.join(self.names)}: bind it to a subscriber's context first"


class SubscriptionError(GodwitError):
    """An unknown subscription id, or one that is taken."""


class Refused(GodwitError):
    """A broker has refused a request of a client: `str()` is the reason. Nothing was changed."""


class NotConnected(GodwitError, TimeoutError):
    """No broker accepted the connection of a client, or answered it, in time. `str()` has the reason as far as it is
    known."""


class PeerFault(GodwitError):
    """A message that no honest peer sends. Machines turn it into a closed link with a reason; no driver sees it."""


class MqttFault(PeerFault):
    """An MQTT peer broke the standard. `reason_code` is that of the standard, `text` explains it.

    `packets`: complete packets that the decoder had read before the fault, in the same piece of the stream.
    """

    def __init__(self, reason_code: int, text: str) -> None:
        super().__init__(reason_code, text)
        self.reason_code = reason_code
        self.text = text
        self.packets: list[Any] = []

    def __str__(self) -> str:
        return f"{self.text} (0x{self.reason_code:02X})"


class NotAdmitted(PeerFault):
    """A peer may not log in, or not by that name. `cause` is one of those of `godwit.runtime.security_log`."""

    def __init__(self, reason: str, cause: str) -> None:
        super().__init__(reason)
        self.cause = cause


class ScenarioError(GodwitError, ValueError):
    """A scenario that cannot be run: names the file, the key and what is allowed."""


class PipelineError(GodwitError):
    """Spark cannot start, or a table, file or setting of the pipeline cannot be used."""


class IndexFileError(GodwitError, ValueError):
    """A file that is not an index, is not whole or was made by another version; or an index that no file can hold."""


class ConfigurationError(GodwitError, ValueError):
    """A broker's configuration that cannot be used. Each of `faults` names file and line, key and what is allowed."""

    def __init__(self, *faults: str) -> None:
        super().__init__(*faults)
        self.faults = faults

    def __str__(self) -> str:
        if len(self.faults) == 1:
            return self.faults[0]
        return "\n  ".join([f"{len(self.faults)} faults in the configuration", *self.faults])


class JournalError(GodwitError):
    """A broker's journal that cannot be read or written: names the file and what is wrong with it."""


class SnapshotError(GodwitError):
    """A snapshot that cannot be used: of another format or version, or of another machine."""


class EventLogError(GodwitError):
    """An event log that cannot be read or written: names the file and what is wrong with it."""


class StoreError(GodwitError):
    """A client's store of subscriptions that cannot be read or written."""


class RepositoryError(GodwitError):
    """The stored data of a peer of a team cannot be read or written: names the file and the error."""


class RepositoryInUse(RepositoryError):
    """Another process uses the folder of a peer: names the process."""


class ContentError(RepositoryError):
    """A file that cannot be stored or read: no room on the disk, over a quota, damaged, or not here."""


class NotHere(ContentError):
    """The content of a document is not at this peer: others may have it."""


class TransferError(GodwitError):
    """A file that cannot be sent to other peers, or fetched from them: names the peers that were asked, and the result
    of each.

    The parts that were fetched are kept: the next attempt continues there.
    """


class ProfileError(GodwitError, ValueError):
    """A profile, or an extension of profiles, that cannot be used: names the element and what is allowed."""


class SecurityError(GodwitError, ValueError):
    """Users, keys, certificates or settings about them that cannot be used: names the file and what is allowed."""


def _excerpt(source: str, line: int, column: int) -> tuple[str, int]:
    """The part of the line around `column` that fits on a screen, and the position of the caret in it."""
    lines = source.split("\n", line)
    text = lines[line - 1].rstrip("\r") if 0 < line <= len(lines) else ""
    caret_at = min(max(column - 1, 0), len(text))
    start = max(min(caret_at - EXCERPT_CHARS_MAX // 2, len(text) - EXCERPT_CHARS_MAX), 0)
    end = start + EXCERPT_CHARS_MAX
    shown = "".join(char if char.isprintable() else " " for char in text[start:end])
    before = "…" if start > 0 else ""
    after = "…" if end < len(text) else ""
    return f"{before}{shown}{after}", caret_at - start + len(before)


def _one_of(choices: tuple[str, ...]) -> str:
    """`a`, `a or b`, `a, b or c`; the tail is counted when there are too many to read."""
    shown = list(choices[:EXPECTED_SHOWN_MAX])
    if len(choices) > EXPECTED_SHOWN_MAX:
        shown.append(f"{len(choices) - EXPECTED_SHOWN_MAX} more")
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} or {shown[-1]}"
