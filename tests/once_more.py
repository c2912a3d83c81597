"""Runs the tests that have failed in `make test` once more, one after the other, and names those that pass then.

`python -m tests.once_more`, after `make test`. Of twelve thousand tests, many with real processes, one fails now and
then on a busy machine for no fault of a change. A change is refused if a test fails twice, or if more than `FAILED_MAX`
tests failed: that many are no coincidence. A test that passes the second time is still a fault, of the test or of what
it tests: its first failure stands above, its name is printed at the end, and it is to be mended next. `make test`
itself forgives nothing.
"""

import json
import subprocess
import sys

from tests.at_once import CACHES, COMPLETE, PYTEST

FAILED_MAX = 3


def main() -> int:
    """0 when all that failed passes now."""
    found = [CACHES / part / "v" / "cache" / "lastfailed" for part in ("others", "spark")]
    failed = [test for file in found if file.exists() for test in json.loads(file.read_text(encoding="utf-8"))]
    if not COMPLETE.exists() or not 0 < len(failed) <= FAILED_MAX:
        run = "a complete run" if COMPLETE.exists() else "a run that was cut off"
        print(f"{len(failed)} failed tests in {run}: 1 to {FAILED_MAX} of a complete one are run once more.")
        return 1
    if code := subprocess.call([*PYTEST, "-p", "no:cacheprovider", *failed]):
        return code
    print("UNSTABLE, failed once and passed once:", *failed, sep="\n  ")
    return 0


if __name__ == "__main__":
    sys.exit(main())
