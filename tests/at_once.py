"""Runs the tests of the pipeline beside all others: Spark waits more than it works, and others use the time.

`python -m tests.at_once 2`: two processes for the others. What Spark's tests say is shown when the others are done.
"""

import subprocess
import sys
import tempfile

QUIET = [sys.executable, "-m", "pytest", "-q"]


def main(workers: str) -> int:
    """Run both; 0 when both pass."""
    with tempfile.TemporaryFile() as said:
        of_spark = [*QUIET, "-m", "spark and not slow", "tests/spark"]
        spark = subprocess.Popen(of_spark, stdout=said, stderr=subprocess.STDOUT)
        spread = ["-n", workers, "--dist", "loadfile", "--no-loadscope-reorder"]
        try:
            codes = [subprocess.call([*QUIET, *spread, "-m", "not slow and not spark"]), spark.wait()]
        finally:
            spark.terminate()
        said.seek(0)
        sys.stdout.write(said.read().decode(errors="replace"))
    return max(codes)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
