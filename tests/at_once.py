"""Runs the tests of the pipeline beside all others, which three processes share unless another number is given.

`python -m tests.at_once 3`: three processes for the others. What Spark's tests say is shown when the others are done.
Further words are given to the pytest of the others.

What many processes need is made once, before they begin. In a fresh clone every broker and every command that a test
starts would else compile the kernels, and the modules that it imports; where PYTHONDONTWRITEBYTECODE is set, in every
clone; and each process of tests would compile all tests. Nor does a test write bytecode then where files must not grow:
Python 3.11 leaves half of a file, and nobody can import that module again.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

TESTS = Path(__file__).parent
PYTEST = [sys.executable, "-m", "pytest", "-q", "-p", "tests.longest_first"]
COMPILED = f"{{}}.{sys.implementation.cache_tag}-pytest-*.pyc"  # as pytest names what it has compiled
MODULES = ["-m", "compileall", "-q", "-x", "/test_[^/]*$", "src", "benchmarks", "tests"]
KERNELS = ["-m", "tests.unit.matching.every_kernel", "single", "batches"]  # one process: two would compile most twice
CACHES = Path(".pytest_cache")
COMPLETE = CACHES / "complete"  # there when every test was run
COLLECTING = [*PYTEST[1:], "--collect-only", "-m", "not spark"]


def main(workers: str, *words: str) -> int:
    """Run both; 0 when both pass."""
    COMPLETE.unlink(missing_ok=True)
    collecting = _quietly(COLLECTING) if _to_compile() else None
    compiling = [_quietly(words) for words in (MODULES, KERNELS)]
    codes = [process.wait() for process in compiling]
    if collecting:
        collecting.wait()  # what is wrong with a test is told by those that run it
    if any(codes):
        return 1
    with tempfile.TemporaryFile() as said:
        of_spark = [*PYTEST, *_remembering("spark"), "-m", "spark and not slow", "tests/spark"]
        spark = subprocess.Popen(of_spark, stdout=said, stderr=subprocess.STDOUT)
        spread = ["-n", workers, "--dist", "loadfile", "--no-loadscope-reorder"]
        others = [*PYTEST, *_remembering("others"), *spread, "-m", "not slow and not spark", *words]
        try:
            codes = [subprocess.call(others), spark.wait()]
        finally:
            spark.terminate()
        said.seek(0)
        sys.stdout.write(said.read().decode(errors="replace"))
    if set(codes) <= {0, 1}:  # by pytest: passed, some failed
        COMPLETE.touch()
    return max(codes)


def _remembering(part: str) -> list[str]:
    """What failed is remembered for each of the two, for `once_more.py`."""
    return ["--cache-clear", "-o", f"cache_dir={CACHES / part}"]


def _quietly(words: list[str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, *words], stdout=subprocess.DEVNULL)


def _to_compile() -> bool:
    """Whether a tenth of all tests has changed since pytest has compiled it."""
    files = list(TESTS.rglob("test_*.py"))
    changed = [file for file in files if not _is_compiled(file)]
    return len(changed) > len(files) // 10


def _is_compiled(file: Path) -> bool:
    made = file.stat().st_mtime
    return any(each.stat().st_mtime > made for each in (file.parent / "__pycache__").glob(COMPILED.format(file.stem)))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
