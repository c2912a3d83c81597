"""`godwit pipeline compact`: merge the files of a stream's output. It needs no Spark."""

import time
from pathlib import Path
from typing import Annotated

from godwit.cli.pipeline.spark_runner import Debug, one_line_errors, show_summary
from godwit.cli.signatures import Argument

__all__ = ["compact"]


def compact(
    out: Annotated[str, Argument(metavar="TABLE", help="Output folder of a stream.")],
    debug: Debug = False,
) -> None:
    """Merge the files of a stream's output into as few as possible.

    No stream may write to the folder meanwhile. An output of an earlier version, with a folder for each day, is
    rewritten in the present layout. If the command is killed, no match is lost or duplicated.

    Example: godwit pipeline compact matches
    """
    with one_line_errors(debug):
        from godwit.pipeline.stream_compaction import compact as run
        from godwit.pipeline.tables import files

        began, folder = time.monotonic(), Path(out)
        before = _bytes(folder)
        done = run(folder)
        rows: dict[str, object] = {
            "out": out,
            "files_merged": done.merged,
            "files": len(files(folder)),
            "bytes_before": before,
            "bytes": _bytes(folder),
            "seconds": round(time.monotonic() - began, 3),
        }
        show_summary("compact", rows)


def _bytes(folder: Path) -> int:
    from godwit.pipeline.tables import files

    return sum(path.stat().st_size for path in files(folder)) if folder.is_dir() else 0
