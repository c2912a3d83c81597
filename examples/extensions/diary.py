"""A source and a sink of one's own for the pipeline: files with an event of `name=value` pairs on each line, and a
sink that appends matches to a file of JSON lines.

    godwit pipeline ingest diary.txt --format diary:Diary --out events
    godwit pipeline match --events events --subscriptions wishes.jsonl --out matches \\
        --sink diary:JsonLines --sink-option file=matches.jsonl
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from godwit.pipeline.formats import BadRow


class Diary:
    """A format of files. `table`: a file becomes `events`, or `fixes`."""

    table = "events"

    def read(self, file: IO[bytes], name: str) -> Iterator[Mapping[str, Any] | BadRow]:
        """A row for each line; one without `=` cannot be read."""
        for number, line in enumerate(file, start=1):
            text = line.decode().strip()
            pairs = [pair.split("=", 1) for pair in text.split()]
            if all(len(pair) == 2 for pair in pairs):
                yield {key: float(value) if value.isdigit() else value for key, value in pairs}
            else:
                yield BadRow(number, "no diary: a pair has no '='", text)


class JsonLines:
    """A sink. It remembers the last batch in its file, so that a batch that comes again is written once."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self.path = Path(options["file"])

    def write(self, batch: int, matches: Any) -> None:
        """Append the matches of a batch."""
        before = self.path.read_text().splitlines() if self.path.exists() else []
        if before and json.loads(before[-1])["batch"] >= batch:
            return
        rows = [
            {"batch": batch, "event": row.sequence, "subscriptions": sorted(row.subscriptions)}
            for row in matches.orderBy("sequence").toLocalIterator()
        ]
        with self.path.open("a") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)
