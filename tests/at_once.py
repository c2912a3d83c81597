"""Runs the tests of the pipeline beside all others, which two processes or more share.

`python -m tests.at_once 2`: two processes for the others. What Spark's tests say is shown when the others are done.
Further words are given to the pytest of the others.

What many processes need is made once, before they begin. In a fresh clone every broker and every command that a test
starts would else compile the kernels, and the modules that it imports; where PYTHONDONTWRITEBYTECODE is set, in every
clone. Nor does a test write bytecode then where files must not grow: Python 3.11 leaves half of a file, and nobody can
import that module again.
"""

import subprocess
import sys
import tempfile

PYTEST = [sys.executable, "-m", "pytest", "-q", "-p", "tests.longest_first"]
FIRST = [
    ["-m", "compileall", "-q", "-x", "/test_[^/]*$", "src", "benchmarks", "tests"],
    ["-m", "tests.unit.matching.every_kernel", "single"],
    ["-m", "tests.unit.matching.every_kernel", "batches"],
]


def main(workers: str, *words: str) -> int:
    """Run both; 0 when both pass."""
    compiling = [subprocess.Popen([sys.executable, *words], stdout=subprocess.DEVNULL) for words in FIRST]
    codes = [process.wait() for process in compiling]
    if any(codes):
        return 1
    with tempfile.TemporaryFile() as said:
        of_spark = [*PYTEST, "-m", "spark and not slow", "tests/spark"]
        spark = subprocess.Popen(of_spark, stdout=said, stderr=subprocess.STDOUT)
        spread = ["-n", workers, "--dist", "loadfile", "--no-loadscope-reorder"]
        try:
            codes = [subprocess.call([*PYTEST, *spread, "-m", "not slow and not spark", *words]), spark.wait()]
        finally:
            spark.terminate()
        said.seek(0)
        sys.stdout.write(said.read().decode(errors="replace"))
    return max(codes)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
