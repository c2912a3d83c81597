"""Trace records: the schema of what happens in a run, shared by simulator, brokers and pipeline.

*Theory.* A machine emits a record as an effect; the driver adds the time (`at`, seconds since the start of the run) and
the node. Rows are collected as columns in memory, a row group at a time, and written as Parquet. The file
`scenario.json` beside `trace.parquet` has the scenario, the seed and the version, which is all that is needed to repeat
the run. The Parquet file has the same text in its metadata, so that it can be shown alone.
`docs/reference/trace_format.md` explains each kind and field.

*Rules.*
1. `KINDS` and the fields of `Record` are complete; a test fails if the page does not explain one.
2. Equal rows give equal bytes: the file has no wall-clock time and no host name.
3. Only functions import pyarrow: brokers import this module for `Record` alone.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

import msgspec

from godwit import __version__
from godwit.errors import GodwitError

__all__ = ["KINDS", "Record", "TraceSink", "TraceWriter", "about", "read", "schema"]

FILE = "trace.parquet"
ABOUT_FILE = "scenario.json"
ABOUT_KEY = "godwit"  # in the metadata of the Parquet file
FORMAT = 1  # of the columns and their meaning
GROUP_ROWS = 2**17  # a row group: some megabytes of memory
COMPRESSION_LEVEL = 3

KINDS: dict[str, str] = {
    "handled": "A message from the peer arrived at the node; it may be a duplicate.",
    "published": "A client published an event.",
    "probed": "A client published the `number`-th event since it connected, to measure who receives it.",
    "delivered": "An event was delivered to the application of a client.",
    "asked": "A client requested what the filter in `detail` matches, or advertised it; empty: it ended this.",
    "subscribed": "A client's subscription was made, or its filter replaced.",
    "unsubscribed": "A client's subscription ended.",
    "advertised": "A client's advertisement was made, or its filter replaced.",
    "unadvertised": "A client's advertisement ended.",
    "link_up": "The connection to the peer opened.",
    "link_down": "The connection to the peer closed.",
    "crashed": "The node stopped, with or without its disk.",
    "restarted": "The node runs again.",
    "start_refused": "The node did not start, because its disk has lost `detail`; an operator must accept the loss.",
    "loss_accepted": "An operator accepted what the disk has lost: the node may start.",
    "closed": "The node closed the link or connection to the peer, for a reason.",
    "purged": "A rule removed an event from the queue of a client; `rights`: its rights no longer allow it.",
    "expired": "An event in a queue expired.",
    "suppressed": "An event or message was dropped: it was a duplicate, or its subscription had ended.",
    "residue": "An event passed a routable filter, but failed the exact test of the query: a negative residue.",
    "out_of_context": "An event reached a border broker, but the client's filter does not match in its context.",
    "not_addressed": "An event reached the border broker of a client whose context its `to` does not match.",
    "moved": "A client's own context changed.",
    "lost": "An event or message was given up and is known to be lost.",
    "quenched": "An event was dropped at its source because it matched no subscription.",
    "refused": "A request was refused for a reason and changed nothing.",
    "revoked": "A subscription was ended or narrowed, because rights have changed.",
    "suspended": "A subscription gets no more events, because the exact tests of its queries take too long.",
    "fault": "The peer broke the protocol.",
    "session_ended": "A client's session has ended, and its queue is dropped.",
    "dropped": "An event was in the queue of a client when its session ended; at most the last 100 are recorded.",
    "predicted": "A client has disconnected, and its session is sent ahead to the broker in `detail`.",
    "relocating": "A client has attached here, and its session is requested from its last broker.",
    "replayed": "A session was sent to the broker of its client, with the events in its queue.",
    "relocated": "A session has arrived at the broker to which its client is attached.",
    "unawaited": "A client stopped waiting for the replica `peer`, or for one event, for a reason.",
    "overtaken": "An event came from the replica `peer` after later ones of its publisher were displayed: dropped.",
    "gap": "The replica `peer` had an event that no replica delivered: it was purged, expired or lost.",
    "offered": "A source gave an event to its replicas, for the subscriptions that match it; some may miss it.",
    "joined": "A device of an ad hoc network follows the leader that `peer` names.",
    "elected": "A device became the leader of its island, and hosts its event broker.",
    "resigned": "A leader resigned: it handed its sessions to the peer, or was left alone.",
    "merged": "A leader took over the sessions of another, the peer.",
    "coordinated": "A leader and another, the peer, became neighbours: both continue.",
    "tail_lost": "The node's disk has lost the last inputs; it continues as incarnation `number`.",
    "died": "An event was lost with a disk, in transit or in the queue of the client that `peer` names.",
    "table": "The number of entries in one of a broker's tables changed; `detail` names the table.",
    "settled": "No control message is in transit: all requests answered so far are in force everywhere.",
}
"""Every kind of record, and what it says."""


class Record(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One record. Which fields are filled depends on `kind`; the others have their empty value."""

    kind: str
    peer: str = ""  # the other end of the link, or the client
    message: str = ""  # the type of the message
    publisher: str = ""
    sequence: int = -1  # of the event
    subscription: str = ""
    number: int = -1  # of the frame, delivery or request
    size: int = 0  # bytes
    detail: str = ""


class TraceSink(Protocol):
    """Receives records as they occur."""

    def write(self, at: float, node: str, record: Record) -> None:
        """Add a record of `node` at the time `at`."""


def schema() -> Any:
    """The columns of a trace, as a pyarrow schema."""
    import pyarrow as pa

    word = pa.dictionary(pa.int32(), pa.string())
    return pa.schema(
        [
            pa.field("at", pa.float64(), nullable=False),
            pa.field("node", word, nullable=False),
            pa.field("kind", word, nullable=False),
            pa.field("peer", word, nullable=False),
            pa.field("message", word, nullable=False),
            pa.field("publisher", word, nullable=False),
            pa.field("sequence", pa.int64(), nullable=False),
            pa.field("subscription", word, nullable=False),
            pa.field("number", pa.int64(), nullable=False),
            pa.field("size", pa.int64(), nullable=False),
            pa.field("detail", pa.string(), nullable=False),
        ]
    )


class TraceWriter:
    """A sink that writes a folder: `trace.parquet`, and `scenario.json` with the content of `about`.

    Use it as a context manager. Records written before an error can be read.
    """

    def __init__(self, folder: str | Path, about: Mapping[str, Any]) -> None:
        import pyarrow.parquet as pq

        self.folder = Path(folder)
        self.rows = 0
        said = {"version": __version__, **about}
        text = json.dumps(said, indent=2, sort_keys=True, ensure_ascii=False)
        short = json.dumps({"format": FORMAT, **said}, sort_keys=True, ensure_ascii=False)
        self._schema = schema().with_metadata({ABOUT_KEY: short})
        self._pending: list[tuple[Any, ...]] = []
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            (self.folder / ABOUT_FILE).write_text(f"{text}\n", encoding="utf-8")
            self._writer = pq.ParquetWriter(
                self.folder / FILE, self._schema, compression="zstd", compression_level=COMPRESSION_LEVEL
            )
        except OSError as error:
            raise GodwitError(f"cannot write a trace to {folder}: {error.strerror or error}") from None

    def write(self, at: float, node: str, record: Record) -> None:
        """Add a row."""
        assert record.kind in KINDS, record.kind
        self._pending.append((at, node, *msgspec.structs.astuple(record)))
        if len(self._pending) >= GROUP_ROWS:
            self._flush()

    def close(self) -> None:
        """Write the remaining rows and the footer of the file."""
        if self._pending:
            self._flush()
        self._writer.close()

    def __enter__(self) -> "TraceWriter":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _flush(self) -> None:
        import pyarrow as pa

        columns = zip(*self._pending, strict=True)
        arrays = [_array(pa, list(column), field.type) for column, field in zip(columns, self._schema, strict=True)]
        self._writer.write_table(pa.Table.from_arrays(arrays, schema=self._schema), row_group_size=GROUP_ROWS)
        self.rows += len(self._pending)
        self._pending = []


def _array(pa: Any, values: list[Any], kind: Any) -> Any:
    """A column; repeated texts are dictionary-encoded in order of first appearance."""
    if pa.types.is_dictionary(kind):
        return pa.array(values, pa.string()).dictionary_encode()
    return pa.array(values, kind)


def read(path: str | Path) -> Any:
    """The trace in a folder, or in a Parquet file, as a pyarrow Table."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = Path(path)
    file = path / FILE if path.is_dir() else path
    try:
        table = pq.read_table(file)
    except (OSError, pa.ArrowInvalid) as error:
        raise GodwitError(f"cannot read the trace {file}: {error}") from None
    if table.schema.names != schema().names:
        raise GodwitError(f"{file} is not a trace: its columns are {', '.join(table.schema.names)}")
    return table


def about(path: str | Path) -> dict[str, Any]:
    """The content of `scenario.json` in a trace's folder."""
    file = Path(path) / ABOUT_FILE
    try:
        found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise GodwitError(f"cannot read {file}: {error}") from None
    return found
